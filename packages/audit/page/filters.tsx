import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useShown } from './app.ts';
import { changedTexts, fillForm } from './dom.ts';
import type { Problem } from './problem.ts';
import { SCREENS, type Screen, timeOfDay } from './route.ts';
import { capital } from './text.ts';
import { TO_THE_MINUTE, type Zone } from './zone.ts';

type Props = {
  screen: Screen;
  problem: Problem | undefined;
  /** The fields that suggest values. */
  suggestions: Readonly<Record<string, Iterable<string>>>;
  submit: string;
  name?: string;
  children?: ComponentChildren;
};

/** The form of a screen's filters. Its fields are refilled when the fragment of the URL changes. */
export function Filters({ screen, problem, suggestions, submit, name = '', children }: Props): JSX.Element {
  const { state, app } = useShown();
  const { zone, route } = state;
  const { noun } = app.entities;
  const form = useRef<HTMLFormElement>(null);
  const names = Object.keys(SCREENS[screen].fields);
  const given = Object.fromEntries(names.map((name) => [name, route.fields[name] ?? '']));
  const fill = (): void => fillForm(form.current as HTMLFormElement, shownTexts(screen, given, zone));
  useLayoutEffect(fill, [JSON.stringify(given), zone]);

  /** An unchanged field keeps its value in the URL: its text may be less exact. */
  function send(event: Event): void {
    event.preventDefault();
    const changed = Object.entries(changedTexts(event.currentTarget as HTMLFormElement)).map(
      ([name, text]) => {
        const time = timeOfDay(screen, name);
        return [name, (time !== undefined && zone.parse(text.trim(), time)) || text];
      },
    );
    app.go(screen, { ...given, ...Object.fromEntries(changed) });
  }

  const label: Record<string, string> = { id: `${capital(noun)} ID` };
  return (
    <form ref={form} class={`filters ${name}`} aria-label="Filters" onSubmit={send}>
      {names.map((name) => (
        <Field
          key={name}
          name={name}
          label={label[name] ?? capital(name)}
          zone={timeOfDay(screen, name) === undefined ? undefined : zone}
          suggestions={suggestions[name]}
          isRefused={problem?.field === name}
          placeholder={{ since: '2026-03-01 12:00', until: '2026-03-01', at: 'now' }[name]}
        />
      ))}
      <span class="actions">
        <button type="submit" class="primary">
          {submit}
        </button>
        {children}
      </span>
    </form>
  );
}

function shownTexts(screen: Screen, given: Record<string, string>, zone: Zone): Record<string, string> {
  const texts = Object.entries(given).map(([name, text]) => {
    const time = timeOfDay(screen, name);
    return [name, time === undefined ? text : zone.show(text, time)];
  });
  return Object.fromEntries(texts);
}

type FieldProps = {
  name: string;
  label: string;
  /** The zone of a time. */
  zone: Zone | undefined;
  suggestions: Iterable<string> | undefined;
  isRefused: boolean;
  placeholder: string | undefined;
};

function Field({ name, label, zone, suggestions, isRefused, placeholder }: FieldProps): JSX.Element {
  const list = suggestions && `${name}-list`;
  return (
    <label>
      <span id={`${name}-label`}>
        {label} {zone && `(${zone.name})`}
      </span>
      <input
        name={name}
        class={zone && 'time'}
        list={list}
        placeholder={placeholder}
        inputmode={name === 'id' ? 'numeric' : undefined}
        aria-labelledby={`${name}-label`}
        aria-invalid={isRefused ? 'true' : undefined}
        autocomplete="off"
        spellcheck={false}
      />
      {suggestions && (
        <datalist id={list}>
          {Array.from(suggestions, (value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
      {zone && <Picker name={name} />}
    </label>
  );
}

/** A button that opens the browser's calendar. */
function Picker({ name }: { name: string }): JSX.Element {
  const [opened, open] = useState(0);
  const picker = useRef<HTMLInputElement>(null);
  const field = (): HTMLInputElement => picker.current?.form?.elements.namedItem(name) as HTMLInputElement;
  useLayoutEffect(() => {
    if (!picker.current) return;
    const [date = '', time = 'T00:00'] = field().value.trim().replace(' ', 'T').split(/(?=T)/);
    picker.current.value = date && (date + time).slice(0, TO_THE_MINUTE);
    picker.current.showPicker();
  }, [opened]);
  return (
    <>
      <button
        type="button"
        class="pick"
        aria-label={`Choose a time: ${name}`}
        onClick={() => open(opened + 1)}
      >
        ▾
      </button>
      {opened > 0 && (
        <input
          ref={picker}
          class="picker"
          type="datetime-local"
          lang="sv" // Chrome shows the format of the field in Swedish: 2026-03-01 12:00
          tabIndex={-1}
          aria-hidden="true"
          onChange={({ currentTarget }) => {
            field().value = currentTarget.value.replace('T', ' ');
          }}
        />
      )}
    </>
  );
}
