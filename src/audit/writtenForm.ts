import type { RecordedEvent } from '../eventStore/eventStore.ts';
import { EVENTS, Metadata } from '../plants/events.ts';

/** JSON of text without escapes, or of an integer without exponent: RFC 8785 writes them alike. */
const VALUE = String.raw`("[^"\\\x00-\x1f]*"|0|-?[1-9]\d{0,14})`;

/**
 * The form in which this service stores nearly all objects of a schema: JSON without white space, with its
 * members in its order, each of text or an integer. Such JSON is hashed and sent without parsing it.
 */
export class WrittenForm {
  readonly names: readonly string[];
  /** Each member up to its value, and its place among the names, in the order of RFC 8785. */
  readonly sorted: readonly (readonly [start: string, place: number])[];
  readonly #pattern: RegExp;

  /** The first member must be required. */
  constructor({ properties, required = [] }: { properties: object; required?: readonly string[] }) {
    this.names = Object.keys(properties);
    const startOf = (name: string): string => `${JSON.stringify(name)}:`;
    this.sorted = this.names.toSorted().map((name) => [startOf(name), this.names.indexOf(name)]);
    const members = this.names.map((name, i) => {
      const member = `${i === 0 ? '' : ','}${RegExp.escape(startOf(name))}${VALUE}`;
      return required.includes(name) ? member : `(?:${member})?`;
    });
    this.#pattern = new RegExp(`^\\{${members.join('')}\\}$`);
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
    const value: { [name: string]: string | number } = {};
    for (const [i, name] of this.#form.names.entries()) {
      const json = this.#found[i + 1];
      if (json !== undefined) value[name] = json.startsWith('"') ? json.slice(1, -1) : Number(json);
    }
    return value;
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
