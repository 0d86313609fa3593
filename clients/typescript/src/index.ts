export { type ListQuery, type ReflectEvent, type RequestParts, Vmemo, type VmemoOptions } from "./client.ts";
export { type VmemoErrorOptions, VmemoError } from "./errors.ts";
export type * from "./schema.ts";
export type { CallOptions, ConnectionOptions } from "./transport.ts";
