import { beginning, count, visible } from './text.ts';
import { TO_THE_MINUTE } from './zone.ts';

export const MAX_TEXT_CHARACTERS = 4_000;
const MAX_CELL_CHARACTERS = 120;
const MAX_SUGGESTIONS = 200;

/** The element that matches a selector. @throws Error if there is none */
export function find<E extends Element = HTMLElement>(parent: ParentNode, selector: string): E {
  const element = parent.querySelector<E>(selector);
  if (!element) throw new Error(`the page has no ${selector}`);
  return element;
}

/** Characters that are written from right to left: https://www.unicode.org/reports/tr44/#Bidi_Class_Values */
const RTL = '[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufeff\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]';
const RTL_WORDS = new RegExp(`(${RTL}+(?: ${RTL}+)*)`, 'u');

/** Isolates words that are written from right to left: they must not change the order of the text around them. */
export function isolated(text: string): (Node | string)[] {
  return text.split(RTL_WORDS).map((part, i) => {
    if (i % 2 === 0) return part;
    const words = document.createElement('bdi');
    words.textContent = part;
    return words;
  });
}

/** Creates an element with a class and children; text is never parsed as markup. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className = '',
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children.flatMap((child) => (typeof child === 'string' ? isolated(child) : child)));
  return element;
}

export function button(label: Node | string, onClick: () => void): HTMLButtonElement {
  const element = make('button', '', label);
  element.type = 'button';
  element.onclick = onClick;
  return element;
}

export function link(label: Node | string, url: string, className = ''): HTMLAnchorElement {
  const element = make('a', className, label);
  element.href = url;
  return element;
}

/** Copies a text, and reports it in an element. */
export async function copyText(text: string, status: Element): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = 'Copied.';
  } catch {
    status.textContent = 'The browser does not allow it; select the text.';
  }
}

/** A button that copies a text, and reports it. */
export function copyButton(label: string, text: string, status: HTMLElement): HTMLButtonElement {
  return button(label, () => void copyText(text, status));
}

/** Adds a button to a time field that opens the browser's calendar. */
export function addPicker(field: HTMLInputElement): void {
  const picker = make('input', 'picker');
  picker.type = 'datetime-local';
  picker.lang = 'sv'; // Chrome shows the format of the field in Swedish: 2026-03-01 12:00
  picker.tabIndex = -1;
  picker.ariaHidden = 'true';
  picker.onchange = () => (field.value = picker.value.replace('T', ' '));
  const open = button('▾', () => {
    open.after(picker);
    picker.value = field.value
      .trim()
      .replace(' ', 'T')
      .replace(/^[^T]*$/, '$&T00:00')
      .slice(0, TO_THE_MINUTE);
    picker.showPicker();
  });
  open.className = 'pick';
  open.ariaLabel = `Choose a time: ${field.name}`;
  field.after(open);
}

/** Adds values to the suggestions of a field. */
export function suggest(list: HTMLDataListElement, values: readonly string[]): void {
  const known = new Set([...list.options].map(({ value }) => value));
  const added = [...new Set(values).difference(known)].filter((value) => value !== '');
  list.append(...added.slice(0, MAX_SUGGESTIONS - known.size).map((value) => new Option('', value)));
}

export function saveFile(name: string, content: Blob): void {
  const link = make('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Makes a column of elements one stop of the Tab key; arrow keys move within it. */
export function moveByArrows(container: HTMLElement, selector: string): void {
  container.addEventListener('keydown', (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const all = [...container.querySelectorAll<HTMLElement>(selector)];
    const from = all.indexOf(document.activeElement as HTMLElement);
    const to = all[from + (step ?? 0)];
    if (step === undefined || from === -1 || !to) return;
    event.preventDefault();
    for (const element of all) element.tabIndex = element === to ? 0 : -1;
    to.focus();
  });
}

/** A text of an event within a line, possibly empty; its direction does not affect the text around it. */
export function cellText(value: unknown): HTMLElement {
  const text = typeof value === 'string' ? value : '';
  const element = make('bdi');
  element.textContent = element.title = visible(beginning(text, MAX_CELL_CHARACTERS));
  if (text.length > MAX_CELL_CHARACTERS) element.append('…');
  return element;
}

/** The name of a stream; its parts keep their order. */
export function streamName(text: string): HTMLElement {
  return make('span', '', visible(beginning(text, MAX_CELL_CHARACTERS)));
}

/** A list of names and values; omits missing values. */
export function facts(entries: Iterable<readonly [string, Node | string | undefined]>): HTMLDListElement {
  const list = make('dl');
  for (const [name, value] of entries)
    if (value) list.append(make('dt', '', visible(name)), make('dd', '', value));
  return list;
}

export function chip(value: unknown): Node | string {
  return typeof value === 'string' ? make('span', 'chip', cellText(value)) : '';
}

/** JSON that is shown on demand, in colours; of a long text, its beginning and a button that shows all. */
export function jsonDetails(text: string): HTMLDetailsElement {
  const shown = make('span', '', ...coloured(beginning(text, MAX_TEXT_CHARACTERS)));
  const element = make('pre', '', shown);
  element.tabIndex = 0;
  if (text.length > MAX_TEXT_CHARACTERS) {
    const showAll = button(`Show all ${count(text.length)} characters`, () => {
      shown.replaceChildren(...coloured(text));
      showAll.remove();
      element.focus();
    });
    element.append('…\n', showAll);
  }
  return make('details', '', make('summary', '', 'JSON'), element);
}

/** The strings of JSON, with the colon after a key; and numbers and words. */
const TOKEN = /("(?:[^"\\]|\\.)*"(?:: )?|(?<=[ [])[-\w.+]+)/g;

function coloured(json: string): Node[] {
  return json.split(TOKEN).map((part, i) => {
    const name = part.endsWith(': ') ? 'key' : part.startsWith('"') ? 'string' : 'number';
    return make('span', i % 2 === 0 ? '' : name, part);
  });
}
