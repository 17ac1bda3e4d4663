import type { RecordedEvent } from '../eventStore/eventStore.ts';
import { EVENTS, Metadata } from '../plants/events.ts';
import type { LeafEvent } from './leaf.ts';

/** Text that needs no escapes in JSON. */
const TEXT = String.raw`[^"\\\x00-\x1f]*`;
/** JSON of such text, or of an integer without exponent: RFC 8785 writes them alike. */
const VALUE = String.raw`("${TEXT}"|0|-?[1-9]\d{0,14})`;

type Schema = { properties: object; required?: readonly string[] };

/** A pattern of an object with members in this order, each value a group. The first member must be required. */
function objectPattern(names: readonly string[], required: readonly string[] = []): string {
  const members = names.map((name, i) => {
    const member = `${i === 0 ? '' : ','}${RegExp.escape(startOf(name))}${VALUE}`;
    return required.includes(name) ? member : `(?:${member})?`;
  });
  return `\\{${members.join('')}\\}`;
}

/** A member up to its value. */
const startOf = (name: string): string => `${JSON.stringify(name)}:`;

type Groups = readonly (string | undefined)[];

/** What JSON.parse returns for an object, from the groups of its pattern, of which the first is at `from`. */
function readObject(
  names: readonly string[],
  groups: Groups,
  from: number,
): { [name: string]: string | number } {
  const value: { [name: string]: string | number } = {};
  for (const [i, name] of names.entries()) {
    const json = groups[from + i];
    if (json !== undefined) value[name] = json.startsWith('"') ? json.slice(1, -1) : Number(json);
  }
  return value;
}

/**
 * The form in which this service stores nearly all objects of a schema: JSON without white space, with its
 * members in its order, each of text or an integer. Such JSON is hashed and sent without parsing it.
 */
export class WrittenForm {
  readonly names: readonly string[];
  /** Each member up to its value, and its place among the names, in the order of RFC 8785. */
  readonly sorted: readonly (readonly [start: string, place: number])[];
  readonly #pattern: RegExp;

  constructor({ properties, required }: Schema) {
    this.names = Object.keys(properties);
    this.sorted = this.names.toSorted().map((name) => [startOf(name), this.names.indexOf(name)]);
    this.#pattern = new RegExp(`^${objectPattern(this.names, required)}$`);
  }

  /** The object that a text is the JSON of; undefined if it is not in this form. */
  read(json: string): WrittenObject | undefined {
    const found = json.isWellFormed() ? this.#pattern.exec(json) : null;
    return found ? new WrittenObject(this, found) : undefined;
  }
}

class WrittenObject {
  readonly #form: WrittenForm;
  readonly #found: RegExpExecArray;

  constructor(form: WrittenForm, found: RegExpExecArray) {
    this.#form = form;
    this.#found = found;
  }

  /** The text that was read, as JSON.stringify writes the object. */
  get json(): string {
    return this.#found[0];
  }

  /** Its canonical JSON (RFC 8785). */
  get canonical(): string {
    let members = '';
    for (const [start, place] of this.#form.sorted) {
      const value = this.#found[place + 1];
      if (value !== undefined) members += `${members === '' ? '' : ','}${start}${value}`;
    }
    return `{${members}}`;
  }

  /** What JSON.parse returns for it. */
  get value(): { [name: string]: string | number } {
    return readObject(this.#form.names, this.#found, 1);
  }
}

const METADATA = new WrittenForm(Metadata);
const DATA = new Map(Object.entries(EVENTS).map(([type, { schema }]) => [type, new WrittenForm(schema)]));

/** Data and metadata of an event, if their stored text is known and in the form in which this service writes them. */
export function readWritten({
  type,
  stored,
}: Pick<RecordedEvent, 'type' | 'stored'>): { data: WrittenObject; metadata: WrittenObject } | undefined {
  const data = stored && DATA.get(type)?.read(stored.data);
  const metadata = data && METADATA.read(stored.metadata);
  return metadata && { data, metadata };
}

/** The form of the leaves of nearly all events of a type that this service stores: no text in them needs escapes. */
class WrittenLeaf {
  readonly #type: string;
  readonly #data: readonly string[];
  readonly #metadata: readonly string[];
  readonly #pattern: RegExp;

  constructor(type: string, data: Schema, metadata: Schema) {
    this.#type = type;
    this.#data = Object.keys(data.properties).sort();
    this.#metadata = Object.keys(metadata.properties).sort();
    const members = [
      `"data":${objectPattern(this.#data, data.required)}`,
      `"id":"(${TEXT})"`,
      `"metadata":${objectPattern(this.#metadata, metadata.required)}`,
      String.raw`"revision":"(0|[1-9]\d{0,17})"`,
      `"stream":"(${TEXT})"`,
      `"type":${RegExp.escape(JSON.stringify(type))}`,
    ];
    this.#pattern = new RegExp(`^\\{${members.join(',')}\\}$`);
  }

  read(text: string): LeafEvent | undefined {
    const groups = this.#pattern.exec(text);
    if (!groups) return undefined;
    const id = 1 + this.#data.length;
    const revision = id + 1 + this.#metadata.length;
    return {
      id: groups[id] as string,
      stream: groups[revision + 1] as string,
      revision: BigInt(groups[revision] as string),
      type: this.#type,
      data: readObject(this.#data, groups, 1),
      metadata: readObject(this.#metadata, groups, id + 1),
    };
  }
}

const LEAVES = Object.entries(EVENTS).map(([type, { schema }]) => new WrittenLeaf(type, schema, Metadata));

/** The event that a leaf, well-formed text, is of, if it is in the form of nearly all leaves of this service. */
export function readWrittenLeaf(text: string): LeafEvent | undefined {
  for (const form of LEAVES) {
    const event = form.read(text);
    if (event) return event;
  }
  return undefined;
}
