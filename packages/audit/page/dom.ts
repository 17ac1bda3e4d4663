// What is written to the document beside rendering: saved and copied files, focus, and forms.

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Copies a text; returns what to say. */
export async function copyText(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return 'Copied.';
  } catch {
    return 'The browser does not allow it; select the text.';
  }
}

/** Moves the focus from an element to the next or the previous match within a container; returns the match. */
export function moveFocus(container: HTMLElement, selector: string, step: number): HTMLElement | undefined {
  const all = [...container.querySelectorAll<HTMLElement>(selector)];
  const from = all.indexOf(document.activeElement as HTMLElement);
  const to = from === -1 ? undefined : all[from + step];
  to?.focus();
  return to;
}

/** Whether an element that had the focus lost it, since it was removed, hidden or disabled. */
export function hasLostFocus(element: Element | null): boolean {
  if (element === null || element === document.body) return false;
  return !element.isConnected || element.matches(':disabled') || !element.checkVisibility();
}

export const focus = (selector: string): void => document.querySelector<HTMLElement>(selector)?.focus();

/** Fills the fields of a form: typed text that was not sent is replaced. */
export function fillForm(form: HTMLFormElement, texts: Readonly<Record<string, string>>): void {
  for (const field of form.querySelectorAll<HTMLInputElement>('input[name]'))
    field.value = field.defaultValue = texts[field.name] ?? '';
}

/** The texts of a form's fields, without those that were not changed since it was filled. */
export function changedTexts(form: HTMLFormElement): Record<string, string> {
  const fields = [...form.querySelectorAll<HTMLInputElement>('input[name]')];
  const changed = fields.filter(({ value, defaultValue }) => value !== defaultValue);
  return Object.fromEntries(changed.map(({ name, value }) => [name, value]));
}
