import type { Position, RecordedEvent } from '@event-sourced/event-log';

// Decodes the responses to reads and subscriptions (EventStoreDB, streams.proto and shared.proto; the encoding:
// https://protobuf.dev/programming-guides/encoding). The client's own code takes three times as long.

/** A response has an event, one of the others, or what is not needed. */
export type ReadResponse = {
  event?: RecordedEvent;
  /** The length of the data and the metadata of the event, in bytes. */
  length?: number;
  isConfirmation?: boolean;
  /** The server has searched up to this position. */
  searchedTo?: Position;
  isStreamNotFound?: boolean;
};

export function readResponse(bytes: Buffer): ReadResponse {
  const response: ReadResponse = {};
  for (const content = new Message(bytes); content.next(); ) {
    if (content.field === 1) Object.assign(response, readEvent(content.value));
    else if (content.field === 2) response.isConfirmation = true;
    else if (content.field === 3) response.searchedTo = content.value.find(1)?.integer ?? 0n;
    else if (content.field === 4) response.isStreamNotFound = true;
  }
  return response;
}

function readEvent(message: Message): ReadResponse {
  const recorded = message.find(1);
  if (!recorded) return {}; // a link whose event was deleted
  let [stream, id, type, isJson] = ['', '', '', false];
  let [position, revision] = [0n, 0n];
  let data: Message | undefined;
  let metadata: Message | undefined;
  while (recorded.next()) {
    const { field, value } = recorded;
    if (field === 1) id = textOf(value, 2);
    else if (field === 2) stream = textOf(value, 3);
    else if (field === 3) revision = value.integer;
    else if (field === 5) position = value.integer;
    else if (field === 6) {
      const name = textOf(value, 1);
      if (name === 'type') type = textOf(value, 2);
      if (name === 'content-type') isJson = textOf(value, 2) === 'application/json';
    } else if (field === 7) metadata = value;
    else if (field === 8) data = value;
  }
  const event = {
    position,
    stream,
    revision,
    id,
    type,
    data: isJson ? (data ? parsed(data, ({ text }) => text) : '') : (data?.bytes ?? new Uint8Array()),
    metadata: metadata?.length ? parsed(metadata, ({ bytes }) => bytes) : undefined,
  };
  return { event, length: (data?.length ?? 0) + (metadata?.length ?? 0) };
}

const textOf = (message: Message, field: number): string => message.find(field)?.text ?? '';

/** The lengths of values by their wire type, which later versions may use. */
const FIXED_LENGTHS: Record<number, number> = { 1: 8, 5: 4 };

/** A message, or another value of a field of a message. */
class Message {
  /** The current field. */
  field = 0;
  readonly #bytes: Buffer;
  readonly #start: number;
  readonly #end: number;
  /** Where the value of the current field starts and ends. */
  #from: number;
  #to: number;

  constructor(bytes: Buffer, start = 0, end = bytes.length) {
    this.#bytes = bytes;
    this.#start = this.#from = this.#to = start;
    this.#end = end;
  }

  /** Continues with the next field; false at the end. */
  next(): boolean {
    if (this.#to >= this.#end) return false;
    const tag = this.#number();
    this.field = tag >>> 3;
    const wireType = tag & 7;
    const length = wireType === 2 ? this.#number() : FIXED_LENGTHS[wireType];
    this.#from = this.#to;
    if (wireType === 0) this.#number();
    else if (length === undefined) throw new Error(`unknown wire type ${wireType}`);
    else this.#to += length;
    if (this.#to > this.#end) throw new Error('a field ends after its message');
    return true;
  }

  get value(): Message {
    return new Message(this.#bytes, this.#from, this.#to);
  }

  /** The value of a field, from the first one on. */
  find(field: number): Message | undefined {
    this.#to = this.#start;
    while (this.next()) if (this.field === field) return this.value;
    return undefined;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  get bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(this.#start, this.#end));
  }

  get text(): string {
    return this.#bytes.toString('utf8', this.#start, this.#end);
  }

  /** All 64 bits. */
  get integer(): bigint {
    let integer = 0n;
    for (let i = this.#end - 1; i >= this.#start; i--)
      integer = integer * 128n + BigInt((this.#bytes[i] as number) & 127);
    return integer;
  }

  /** A tag or a length: groups of seven bits, the lowest first. */
  #number(): number {
    let number = 0;
    for (let factor = 1; factor < 2 ** 70; factor *= 128) {
      const byte = this.#bytes[this.#to++] ?? 0;
      number += (byte & 127) * factor;
      if (byte < 128) return number;
    }
    throw new Error('a number has more than ten bytes');
  }
}

/** Deeper nesting would overflow the stack of a structured clone between threads. */
const MAX_NESTING = 500;

/** The value of JSON, or its bytes if it is nested too deeply: so a reader sees each of them. */
function parsed(message: Message, otherwise: (message: Message) => unknown): unknown {
  const { text } = message;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return otherwise(message);
  }
  const mayBeDeep = text.length > 2 * MAX_NESTING; // each level is two brackets
  return mayBeDeep && isDeeperThan(MAX_NESTING, value) ? message.bytes : value;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}
