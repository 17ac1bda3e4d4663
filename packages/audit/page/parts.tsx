import type { ButtonHTMLAttributes, ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { copyText } from './dom.ts';
import type { Problem as ProblemState } from './problem.ts';
import { beginning, coloured, count, isolated, visible } from './text.ts';

export const MAX_TEXT_CHARACTERS = 4_000;
const MAX_CELL_CHARACTERS = 120;

type Children = { children?: ComponentChildren };

/** A sentence, possibly with texts of events. */
export function Isolated({ text }: { text: string }): JSX.Element {
  return <>{isolated(text).map((part, i) => (i % 2 === 0 ? part : <bdi>{part}</bdi>))}</>;
}

/** A text of an event within a line, possibly empty; its direction does not affect the text around it. */
export function Cell({ value }: { value: unknown }): JSX.Element {
  const text = typeof value === 'string' ? value : '';
  const shown = visible(beginning(text, MAX_CELL_CHARACTERS));
  return (
    <bdi title={shown}>
      {shown}
      {text.length > MAX_CELL_CHARACTERS && '…'}
    </bdi>
  );
}

/** The name of a stream; its parts keep their order. */
export function StreamName({ name }: { name: string }): JSX.Element {
  return <span>{visible(beginning(name, MAX_CELL_CHARACTERS))}</span>;
}

export function Tag({ value }: { value: unknown }): JSX.Element | null {
  if (typeof value !== 'string') return null;
  return (
    <span class="tag-text">
      <Cell value={value} />
    </span>
  );
}

export type Entry = readonly [name: string, value: ComponentChildren];

/** A list of names and values; omits missing values. */
export function Facts({ entries, name = '' }: { entries: Iterable<Entry>; name?: string }): JSX.Element {
  const shown = [...entries].filter(([, value]) => value !== undefined && value !== '');
  return (
    <dl class={name}>{shown.flatMap(([name, value]) => [<dt>{visible(name)}</dt>, <dd>{value}</dd>])}</dl>
  );
}

export function Button(props: Children & ButtonHTMLAttributes): JSX.Element {
  return <button type="button" {...props} />;
}

/** Copies a text, and says so in its place. */
export function CopyButton({ label, text }: { label: string; text: string }): JSX.Element {
  const [said, say] = useState('');
  return (
    <>
      <Button class="copy" onClick={() => copyText(text).then(say)}>
        {label}
      </Button>
      <output class="status">{said}</output>
    </>
  );
}

/** Commands of a shell, which can be copied. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="command">
      <pre>{text}</pre>
      <span class="actions">
        <CopyButton label="Copy" text={text} />
      </span>
    </div>
  );
}

/** JSON that is shown on demand, in colours; of a long text, its beginning and a button that shows all. */
export function Json({ text, label = 'JSON' }: { text: string; label?: string }): JSX.Element {
  return (
    <details>
      <summary>{label}</summary>
      <JsonText text={text} />
    </details>
  );
}

export function JsonText({ text }: { text: string }): JSX.Element {
  const [isAll, showAll] = useState(text.length <= MAX_TEXT_CHARACTERS);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <pre tabIndex={0}>
      <span>
        {coloured(isAll ? text : beginning(text, MAX_TEXT_CHARACTERS)).map(([name, part]) => (
          <span class={name}>{part}</span>
        ))}
      </span>
      {!isAll && (
        <>
          …{'\n'}
          <Button onClick={() => showAll(true)}>Show all {count(text.length)} characters</Button>
        </>
      )}
    </pre>
  );
}

/** Why something could not be read, with a button that tries again. */
export function ProblemText(props: { problem: ProblemState | undefined; onRetry?: () => void }): JSX.Element {
  const { problem, onRetry } = props;
  return (
    <p role="alert" class="problem">
      {problem && <Isolated text={problem.message} />}{' '}
      {problem && !problem.isRefused && onRetry && <Button onClick={onRetry}>Try again</Button>}
    </p>
  );
}

/** The one way to say that there is nothing to show. */
export function Nothing({ title, children }: Children & { title?: string }): JSX.Element {
  return (
    <div class="nothing card" role="status">
      {title && (
        <p>
          <b>{title}</b>
        </p>
      )}
      {children}
    </div>
  );
}

/** The title of a screen, which gets the focus when the screen is shown. */
export function Title({ children, id }: Children & { id: string }): JSX.Element {
  return (
    <h2 id={`${id}-title`} tabIndex={-1} data-title>
      {children}
    </h2>
  );
}

/** The frame of rows that are not there yet. */
export function Frame({ rows, label }: { rows: number; label: string }): JSX.Element {
  return (
    <div class="frame" role="status" aria-label={label}>
      {Array.from({ length: rows }, () => (
        <i />
      ))}
    </div>
  );
}
