import { VmemoError, errorOf } from "./errors.ts";
import type * as schema from "./schema.ts";
import { type CallOptions, type ConnectionOptions, Transport, pathOf } from "./transport.ts";

type Routes = schema.Routes;

/** Options of a client. */
export interface VmemoOptions extends ConnectionOptions {
  /** The bank that the verbs use; `default` by default. */
  bank?: string | undefined;
}

/** The parts of a request: values for the names in braces in the path, query parameters, and the body. */
export interface RequestParts<R extends keyof Routes> {
  path?: Readonly<Record<string, string>>;
  query?: Routes[R]["query"];
  body?: Routes[R]["body"];
}

/** An event of a streamed answer. The deltas since the start, or since the last `retracted`, are its text. */
export type ReflectEvent =
  | ({ type: "lookup" } & schema.MemoryLookup)
  | { type: "delta"; text: string }
  | { type: "retracted"; reason: string }
  | { type: "answer"; answer: schema.Answer };

/** The query parameters of a list, apart from its cursor. */
export type ListQuery<R extends keyof Routes> = Omit<NonNullable<Routes[R]["query"]>, "cursor">;

type ListRoute = { [R in keyof Routes]: Routes[R]["response"] extends schema.Page<unknown> ? R : never }[keyof Routes];
type PromptRoute = { [R in keyof Routes]: "prompt" extends FormatOf<Routes[R]["query"]> ? R : never }[keyof Routes];
type FormatOf<Query> = Query extends { format?: infer Format } ? Format : never;
type TextRoute = { [R in keyof Routes]: Routes[R]["response"] extends string ? R : never }[keyof Routes];
type ItemOf<R extends ListRoute> = Routes[R]["response"]["items"][number];

const AUDIT = "GET /v1/audit";
const REFLECT = "POST /v1/banks/{bank}/reflect";
const RECALL = "POST /v1/banks/{bank}/recall";
const RETRIEVE = "POST /v1/banks/{bank}/retrieve";
const CONTEXT = "POST /v1/banks/{bank}/context";
const READS: ReadonlySet<string> = new Set([RECALL, RETRIEVE, CONTEXT]);
const TEXTS: Record<TextRoute, true> = { "GET /metrics": true, "GET /v1/banks/{bank}/export": true };

/** The memory of one bank on a vmemo server. */
export class Vmemo {
  /** The name of the bank. */
  readonly bankName: string;
  readonly #options: VmemoOptions;
  readonly #transport: Transport;

  constructor(options: VmemoOptions = {}) {
    this.bankName = options.bank ?? "default";
    this.#options = options;
    this.#transport = new Transport(options);
  }

  /** Return a client of another bank on the same server. */
  bank(name: string): Vmemo {
    return new Vmemo({ ...this.#options, bank: name });
  }

  /**
   * Store text or messages, and derive facts from them; the bank is created if it does not exist.
   *
   * If facts can't be derived, the error has the ids of the messages as `stored`: they are stored and queued.
   */
  async retain(
    content: string | schema.NewMessage | readonly (string | schema.NewMessage)[],
    fields: Omit<schema.RetainRequest, "messages"> = {},
    options: CallOptions = {},
  ): Promise<schema.RetainResponse> {
    const given = Array.isArray(content) ? content : [content];
    const messages = given.map((each) => (typeof each === "string" ? { content: each } : each));
    const body = { ...fields, messages };
    const retained = await this.request("POST /v1/banks/{bank}/messages", { body }, options);
    if (retained.problem !== null) throw errorOf(retained.problem, { stored: retained.stored });
    return retained;
  }

  /** Return facts by relevance, within `max_tokens`; with `banks`, of these together: `fact.bank` is that of a hit. */
  recall(
    query: string,
    fields: Omit<schema.RecallRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<schema.Recalled> {
    return this.request(RECALL, { body: { ...fields, query } }, options);
  }

  /** Return what `recall` finds as text for a prompt, within `max_tokens`. */
  recallPrompt(
    query: string,
    fields: Omit<schema.RecallRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<string> {
    return this.request(RECALL, { query: { format: "prompt" }, body: { ...fields, query } }, options);
  }

  /** Return the `top_k` most relevant facts. */
  retrieve(
    query: string,
    fields: Omit<schema.RetrieveRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<schema.Recalled> {
    return this.request(RETRIEVE, { body: { ...fields, query } }, options);
  }

  /**
   * Return one block of memories for a system prompt, as `text` of at most `max_tokens`: who the user is, standing
   * instructions, constraints that advice must respect, pinned facts, facts relevant to the query, and the latest ones.
   * With a `session`, `blocks` are the start of the text that later turns repeat: cache up to the last one.
   */
  context(
    query: string | null = null,
    fields: Omit<schema.ContextRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<schema.PromptContext> {
    return this.request(CONTEXT, { body: { ...fields, query } }, options);
  }

  /** Answer a question from memory, with citations. */
  reflect(
    query: string,
    fields: Omit<schema.ReflectRequest, "query"> = {},
    options: CallOptions = {},
  ): Promise<schema.Answer> {
    return this.request(REFLECT, { body: { ...fields, query } }, options);
  }

  /** Answer a question as a stream, which ends with the complete answer. Leaving the loop stops the server's work. */
  async *reflectStream(
    query: string,
    fields: Omit<schema.ReflectRequest, "query"> = {},
    options: Omit<CallOptions, "idempotencyKey"> = {},
  ): AsyncGenerator<ReflectEvent, void, undefined> {
    const call = this.#call(REFLECT, { body: { ...fields, query } });
    for await (const { event, data } of this.#transport.stream(call, options)) {
      if (event === "problem") throw errorOf(data as schema.ProblemDetails);
      if (event === "answer") {
        yield { type: "answer", answer: data as schema.Answer };
        return;
      }
      yield { ...(data as object), type: event } as ReflectEvent;
    }
    throw new VmemoError("The stream ended before the answer was complete.", { code: "ConnectionFailed" });
  }

  /** Delete messages, a document or an entity, with everything derived from them. Name exactly one of the three. */
  forget(target: schema.ForgetContentRequest, options: CallOptions = {}): Promise<schema.Forgotten> {
    return this.request("POST /v1/banks/{bank}/forget", { body: target }, options);
  }

  /** Derive facts from all pending messages, including those that failed before. */
  process(options: CallOptions = {}): Promise<schema.Retained> {
    return this.request("POST /v1/banks/{bank}/process", {}, options);
  }

  /** Iterate over the messages of the bank, in the order they were stored. */
  messages(query: ListQuery<"GET /v1/banks/{bank}/messages"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/messages", { query }, options);
  }

  /** Iterate over the facts of the bank, in the order they were stored, closed ones included. */
  facts(query: ListQuery<"GET /v1/banks/{bank}/facts"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/facts", { query }, options);
  }

  /** Iterate over the episodes of the bank, in the order they were stored. */
  episodes(query: ListQuery<"GET /v1/banks/{bank}/episodes"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/episodes", { query }, options);
  }

  /** Iterate over the entities of the bank, in the order they were first mentioned. */
  entities(query: ListQuery<"GET /v1/banks/{bank}/entities"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/entities", { query }, options);
  }

  /** Iterate over the current opinions. */
  opinions(options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/opinions", {}, options);
  }

  /** Iterate over the observations about one entity or all. */
  observations(query: ListQuery<"GET /v1/banks/{bank}/observations"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/observations", { query }, options);
  }

  /** Iterate over the queued jobs, oldest first, with their errors and retry times. */
  jobs(options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/jobs", {}, options);
  }

  /** Return one fact by its id or short id. */
  get(fact: string, options: CallOptions = {}): Promise<schema.Fact> {
    return this.request("GET /v1/banks/{bank}/facts/{fact}", { path: { fact } }, options);
  }

  /**
   * Write a new version of a fact, and return it; the old one is closed and stays in its history.
   *
   * `fields` are `reason` and `valid_at`, the time since which it is true; a text is the reason.
   */
  update(
    fact: string,
    text: string,
    fields: string | Omit<schema.FactText, "text"> = {},
    options: CallOptions = {},
  ): Promise<schema.Fact> {
    const body = { text, ...(typeof fields === "string" ? { reason: fields } : fields) };
    return this.request("PATCH /v1/banks/{bank}/facts/{fact}", { path: { fact }, body }, options);
  }

  /** Delete one fact with what rests on it, and the messages that state nothing else. */
  delete(fact: string, options: CallOptions = {}): Promise<schema.Forgotten> {
    return this.request("DELETE /v1/banks/{bank}/facts/{fact}", { path: { fact } }, options);
  }

  /** Pin a fact, so that maintenance never closes it, or unpin it. */
  pin(fact: string, pinned = true, options: CallOptions = {}): Promise<schema.Fact> {
    return this.request("PUT /v1/banks/{bank}/facts/{fact}/pin", { path: { fact }, body: { pinned } }, options);
  }

  /** Judge a fact as a hit of a question, right or wrong; null removes the judgement. */
  feedback(
    fact: string,
    question: string,
    useful: boolean | null = false,
    reason = "",
    options: CallOptions = {},
  ): Promise<schema.Fact> {
    const body = { question, useful, reason };
    return this.request("PUT /v1/banks/{bank}/facts/{fact}/feedback", { path: { fact }, body }, options);
  }

  /** Iterate over all versions of a fact, oldest first. */
  history(fact: string, options: CallOptions = {}) {
    return this.list("GET /v1/banks/{bank}/facts/{fact}/history", { path: { fact } }, options);
  }

  /** Return the sources of a fact, its history, and the facts that replaced it. */
  why(fact: string, options: CallOptions = {}): Promise<schema.Provenance> {
    return this.request("GET /v1/banks/{bank}/facts/{fact}/why", { path: { fact } }, options);
  }

  /** Return the bank's counts, pending messages and processing errors. */
  status(options: CallOptions = {}): Promise<schema.Status> {
    return this.request("GET /v1/banks/{bank}", {}, options);
  }

  /** Return the bank's profile. */
  profile(options: CallOptions = {}): Promise<schema.Profile> {
    return this.request("GET /v1/banks/{bank}/profile", {}, options);
  }

  /** Replace the bank's profile; the previous one stays in its history. */
  setProfile(profile: schema.Profile, options: CallOptions = {}): Promise<schema.Profile> {
    return this.request("PUT /v1/banks/{bank}/profile", { body: profile }, options);
  }

  /** Create the bank if it does not exist, and set its profile if one is given. */
  createBank(profile: schema.Profile | null = null, options: CallOptions = {}): Promise<schema.Status> {
    return this.request("PUT /v1/banks/{bank}", { body: profile }, options);
  }

  /** Delete the whole bank. */
  deleteBank(options: CallOptions = {}): Promise<schema.Forgotten> {
    return this.request("DELETE /v1/banks/{bank}", {}, options);
  }

  /** Iterate over the names of the banks that the key may read, in order. */
  banks(query: ListQuery<"GET /v1/banks"> = {}, options: CallOptions = {}) {
    return this.list("GET /v1/banks", { query }, options);
  }

  /** Return if the server runs. */
  health(options: CallOptions = {}): Promise<schema.Health> {
    return this.request("GET /health", {}, options);
  }

  /** Return if the server is ready: its database answers and queued jobs are run. */
  ready(options: CallOptions = {}): Promise<schema.Health> {
    return this.request("GET /health/ready", {}, options);
  }

  /** Send a request to any route of the server; `{bank}` in its path is the client's bank. */
  request<R extends PromptRoute>(
    route: R,
    parts: RequestParts<R> & { query: { format: "prompt" } },
    options?: CallOptions,
  ): Promise<string>;
  request<R extends keyof Routes>(
    route: R,
    parts?: RequestParts<R>,
    options?: CallOptions,
  ): Promise<Routes[R]["response"]>;
  async request<R extends keyof Routes>(
    route: R,
    parts: RequestParts<R> = {},
    options: CallOptions = {},
  ): Promise<string | Routes[R]["response"]> {
    return (await this.#transport.send(this.#call(route, parts), options)) as string | Routes[R]["response"];
  }

  /** Iterate over all records of a route that returns pages. */
  async *list<R extends ListRoute>(
    route: R,
    parts: RequestParts<R> = {},
    options: CallOptions = {},
  ): AsyncGenerator<ItemOf<R>, void, undefined> {
    let cursor: string | null = null;
    do {
      const query = { ...parts.query, [route === AUDIT ? "before" : "cursor"]: cursor } as Routes[R]["query"];
      const page: schema.Page<unknown> = await this.request(route, { ...parts, query }, options);
      yield* page.items as ItemOf<R>[];
      cursor = page.next;
    } while (cursor !== null);
  }

  #call<R extends keyof Routes>(route: R, parts: RequestParts<R>) {
    const [method = "", template = ""] = route.split(" ");
    const { query, body } = parts;
    // The server wants read permission for the bank of the path too.
    const banks = (body as { banks?: string[] } | undefined)?.banks;
    const bank = READS.has(route) && banks?.[0] !== undefined ? banks[0] : this.bankName;
    const path = pathOf(template, { bank, ...parts.path });
    const reads = method === "GET" || READS.has(route);
    const prompt = query !== undefined && "format" in query && query.format === "prompt";
    return { method, path, query, body, reads, text: prompt || route in TEXTS };
  }
}
