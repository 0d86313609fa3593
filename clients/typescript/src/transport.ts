import { VmemoError, errorOfResponse } from "./errors.ts";
import { readEvents } from "./sse.ts";

/** Options of one call. */
export interface CallOptions {
  /** Aborts the call, also during a pause between two attempts and while an answer is streamed. */
  signal?: AbortSignal | undefined;
  /** Milliseconds that an attempt may take, or that a stream may be silent; those of the client by default. */
  timeout?: number | undefined;
  /** A write that is sent again with the same key takes effect once; a random key by default. */
  idempotencyKey?: string | undefined;
}

/** Options of a connection. */
export interface ConnectionOptions {
  /** The address of the server; `http://127.0.0.1:8000` by default. */
  url?: string | URL | undefined;
  /** An API key; a server on the local machine may need none. */
  key?: string | undefined;
  /** Milliseconds that an attempt may take, or that a stream may be silent; 300,000 by default. */
  timeout?: number | undefined;
  /** Further attempts if the server is busy or can't be reached; 3 by default. */
  retries?: number | undefined;
  /** Another implementation of `fetch`, such as one that uses a proxy. */
  fetch?: typeof fetch | undefined;
}

/** One HTTP request. */
export interface Call {
  method: string;
  path: string;
  query?: object | undefined;
  body?: unknown;
  /** True if the request changes nothing. */
  reads: boolean;
  /** True if the response is text; otherwise it is JSON. */
  text: boolean;
}

/** An event of a stream, with its data parsed. */
export interface StreamedEvent {
  event: string;
  data: unknown;
}

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 30_000;
const LONGEST_TIMER = 2 ** 31 - 1;

/** Sends requests, and repeats them where that is safe. */
export class Transport {
  readonly #base: string;
  readonly #host: string;
  readonly #key: string | undefined;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(options: ConnectionOptions) {
    const url = new URL(options.url ?? "http://127.0.0.1:8000");
    this.#host = url.host;
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    if (options.key !== undefined && /…|\.\.\.$/.test(options.key)) {
      throw invalid("key is the placeholder of the documentation. Pass the secret that `vmemo keys create` printed.");
    }
    this.#key = header("key", options.key);
    this.#timeout = options.timeout ?? 300_000;
    this.#retries = options.retries ?? 3;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Send a request and return its response. */
  async send(call: Call, options: CallOptions): Promise<unknown> {
    const key = call.reads ? undefined : (options.idempotencyKey ?? randomKey());
    const headers = this.#headers(call, "application/json", key);
    return this.#repeat(options, true, async (silence) => {
      try {
        const response = await this.#attempt(call, headers, silence);
        const text = await response.text();
        return call.text ? text : this.#parse(text);
      } finally {
        silence.end();
      }
    });
  }

  /** Send a request and yield the events of its response. A stream that breaks is not requested again. */
  async *stream(call: Call, options: CallOptions): AsyncGenerator<StreamedEvent, void, undefined> {
    const headers = this.#headers(call, "text/event-stream", undefined);
    const [response, silence] = await this.#repeat(options, false, async (started) => {
      try {
        return [await this.#attempt(call, headers, started), started] as const;
      } catch (error) {
        started.end();
        throw error;
      }
    });
    try {
      if (response.body === null) return;
      for await (const { event, data } of readEvents(response.body, () => silence.restart())) {
        // Events that arrived together with the last one would be yielded after an abort.
        options.signal?.throwIfAborted();
        yield { event, data: this.#parse(data) };
      }
    } catch (error) {
      throw this.#failure(error, silence, options.signal);
    } finally {
      silence.end();
    }
  }

  #headers(call: Call, accept: string, idempotencyKey: string | undefined): Record<string, string> {
    const headers: Record<string, string> = { Accept: accept };
    const key = header("idempotencyKey", idempotencyKey);
    if (this.#key !== undefined) headers["Authorization"] = `Bearer ${this.#key}`;
    if (key !== undefined) headers["Idempotency-Key"] = key;
    if (call.body !== undefined) {
      headers["Content-Type"] = typeof call.body === "string" ? "application/x-ndjson" : "application/json";
    }
    return headers;
  }

  async #repeat<T>(
    options: CallOptions,
    repeatable: boolean,
    attempt: (silence: SilenceTimer) => Promise<T>,
  ): Promise<T> {
    for (let number = 0; ; number++) {
      options.signal?.throwIfAborted();
      const silence = new SilenceTimer(options.timeout ?? this.#timeout, options.signal);
      try {
        return await attempt(silence);
      } catch (error) {
        const failure = this.#failure(error, silence, options.signal);
        const pause = this.#pause(failure, number, repeatable);
        if (pause === undefined) throw failure;
        await sleep(pause, options.signal);
      }
    }
  }

  async #attempt(call: Call, headers: Record<string, string>, silence: SilenceTimer): Promise<Response> {
    const body = call.body === undefined || typeof call.body === "string" ? call.body : JSON.stringify(call.body);
    const response = await this.#fetch(this.#base + call.path + search(call.query), {
      method: call.method,
      headers,
      signal: silence.signal,
      // A redirect would send memories to another address.
      redirect: "error",
      ...(body === undefined ? {} : { body }),
    });
    if (!response.ok) throw await errorOfResponse(response, this.#host);
    return response;
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      const detail = `${this.#host} returned something else than JSON. Is it a vmemo server? Check the address.`;
      throw new VmemoError(detail, { code: "InvalidResponse", cause });
    }
  }

  /** Return the reason to throw: that of the caller's signal, an error of the server, or a lost connection. */
  #failure(error: unknown, silence: SilenceTimer, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    if (error instanceof VmemoError) return error;
    if (silence.expired) {
      return new VmemoError(`The server at ${this.#host} was silent for too long.`, { code: "Timeout" });
    }
    const detail = `The server at ${this.#host} can't be reached, or the connection broke. Is it running?`;
    return new VmemoError(detail, { code: "ConnectionFailed", cause: error });
  }

  /** Return the milliseconds to wait before the next attempt; undefined if there is none. */
  #pause(failure: unknown, number: number, repeatable: boolean): number | undefined {
    if (!(failure instanceof VmemoError) || number >= this.#retries) return undefined;
    const passing = failure.status === 503 || ["ConnectionFailed", "RequestInProgress"].includes(failure.code);
    // A request that exceeds the rate limit was not executed.
    if (failure.status !== 429 && !(repeatable && passing)) return undefined;
    const own = Math.min(FIRST_PAUSE * 2 ** number, LONGEST_PAUSE) * (0.5 + Math.random() / 2);
    const pause = Math.max(own, (failure.retryAfter ?? 0) * 1000);
    return pause > LONGEST_PAUSE ? undefined : pause;
  }
}

/** A signal that aborts after some milliseconds of silence, or with the caller's signal. */
class SilenceTimer {
  readonly #controller = new AbortController();
  readonly #milliseconds: number;
  readonly #caller: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  expired = false;

  constructor(milliseconds: number, caller: AbortSignal | undefined) {
    this.#milliseconds = milliseconds;
    this.#caller = caller;
    caller?.addEventListener("abort", this.#abort);
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    clearTimeout(this.#timer);
    // Timers overflow above this limit, and would expire at once.
    if (this.#milliseconds <= LONGEST_TIMER) this.#timer = setTimeout(this.#expire, this.#milliseconds);
  }

  /** Stop the timer, and no longer follow the caller's signal. */
  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }

  readonly #expire = (): void => {
    this.expired = true;
    this.#controller.abort();
  };

  readonly #abort = (): void => this.#controller.abort(this.#caller?.reason);
}

/** Return a path of encoded segments. */
export function pathOf(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    // URLs drop dot segments, even encoded ones, so that the request would reach another route.
    if (value === undefined || value === "" || value === "." || value === "..") {
      throw invalid(`${name} must be a name other than "." and "..", not ${JSON.stringify(value)}.`);
    }
    return encodeURIComponent(value);
  });
}

function search(query: object | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/** Return a header's value; an error of `fetch` would look like a lost connection. */
function header(name: string, value: string | undefined): string | undefined {
  if (value !== undefined && !/^[\x21-\x7e]+$/.test(value)) {
    throw invalid(`${name} must consist of visible ASCII characters, without spaces.`);
  }
  return value;
}

function invalid(detail: string): VmemoError {
  return new VmemoError(detail, { code: "InvalidInput" });
}

/** Return a random key; `crypto.randomUUID` is missing on pages without TLS. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
