import type { ProblemDetails } from "./schema.ts";

/** Properties of an error besides its message. */
export interface VmemoErrorOptions {
  status?: number;
  code: string;
  requestId?: string;
  retryAfter?: number | undefined;
  stored?: readonly string[];
  cause?: unknown;
}

/** A request that failed: an error response of the server, or no usable response at all. */
export class VmemoError extends Error {
  override readonly name = "VmemoError";
  /** The HTTP status; 0 if no response came. */
  readonly status: number;
  /**
   * The server's name of the error, such as `NotFound`, `InvalidInput` or `Unauthenticated`; `ConnectionFailed`,
   * `Timeout` or `InvalidResponse` if there is no usable response.
   */
  readonly code: string;
  /** The cause and, where there is one, the fix. */
  readonly detail: string;
  /** The id of the request in the server's log; empty if there is none. */
  readonly requestId: string;
  /** Seconds after which the server accepts the request again, if it says so. */
  readonly retryAfter: number | undefined;
  /** Ids of messages that are stored and queued although facts could not be derived from them yet. */
  readonly stored: readonly string[];

  constructor(detail: string, options: VmemoErrorOptions) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.detail = detail;
    this.status = options.status ?? 0;
    this.code = options.code;
    this.requestId = options.requestId ?? "";
    this.retryAfter = options.retryAfter;
    this.stored = options.stored ?? [];
  }

  /** True if the same request may succeed later: the server was busy or limits the rate of requests. */
  get retryable(): boolean {
    return this.status === 429 || this.status === 503;
  }
}

/** Return the error that problem details (RFC 9457) describe. */
export function errorOf(problem: ProblemDetails, more: Partial<VmemoErrorOptions> = {}): VmemoError {
  const code = problem.type.slice(problem.type.lastIndexOf(":") + 1);
  return new VmemoError(problem.detail, { status: problem.status, code, requestId: problem.request_id, ...more });
}

/** Return the error of a response with an error status. */
export async function errorOfResponse(response: Response, host: string): Promise<VmemoError> {
  const { status } = response;
  const retryAfter = secondsOf(response.headers.get("retry-after"));
  const problem = problemOf(await response.text());
  if (problem !== undefined) return errorOf(problem, { status, retryAfter });
  const detail = `${host} answered with status ${status}, but not as a vmemo server. Check the address.`;
  return new VmemoError(detail, { status, code: "HttpError", retryAfter });
}

function problemOf(text: string): ProblemDetails | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("type" in value) || !("detail" in value)) return undefined;
    return typeof value.type === "string" && typeof value.detail === "string" ? (value as ProblemDetails) : undefined;
  } catch {
    return undefined;
  }
}

/** Return a `Retry-After` in seconds; a date is ignored. */
function secondsOf(retryAfter: string | null): number | undefined {
  return retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
}
