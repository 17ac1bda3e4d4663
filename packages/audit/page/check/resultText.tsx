import { cloudEventText, type Receipt } from '@event-sourced/transparency-log/digest';
import type { JSX } from 'preact';
import { useShown } from '../app.ts';
import {
  Cell,
  type Entry,
  Facts,
  Isolated,
  Json,
  JsonText,
  MAX_TEXT_CHARACTERS,
  StreamName,
} from '../parts.tsx';
import { url } from '../route.ts';
import { beginning, counted, indentedJson, parseTime, visible } from '../text.ts';
import type { Result } from './checkState.ts';
import { MARKS } from './overall.ts';

const MAX_LISTED = 20;

/** What a card has found, and what shows it. */
export function ResultText({ result }: { result: Result }): JSX.Element {
  const { verdict, text, topic, facts, paths, line, receipt } = result;
  return (
    <>
      <p class={verdict}>
        <Isolated text={`${MARKS[verdict]} ${visible(text)}`} />
      </p>
      {receipt && <Erasures receipt={receipt} />}
      {facts && <Facts entries={facts} />}
      {paths && <p class="hash">{paths}</p>}
      {line !== undefined && <Line line={line} index={result.index} />}
      {receipt && <ReceiptEvent receipt={receipt} />}
      {topic && (
        <p>
          <a href={url('help', { about: topic })}>What to do</a>
        </p>
      )}
    </>
  );
}

/** A line that is not what the tree has and, if a receipt shows it, what was expected. */
function Line({ line, index = -1 }: { line: string; index?: number | undefined }): JSX.Element {
  const expected = useShown().state.check.receipts.get(index);
  const found = readable(line);
  if (!expected)
    return (
      <>
        <Json text={found} label="What the service shows" />
        <p class="hint">A receipt of this event, as evidence, shows here what it was.</p>
      </>
    );
  return (
    <div class="side-by-side">
      <div>
        <h4>Expected, by your receipt</h4>
        <JsonText text={readable(expected.text)} />
      </div>
      <div>
        <h4>Found</h4>
        <JsonText text={found} />
      </div>
    </div>
  );
}

/** A line as the text that its entry covers, which a receipt has, too. */
function readable(line: string): string {
  try {
    const event = JSON.parse(line);
    return indentedJson('specversion' in event ? cloudEventText(event) : line);
  } catch {
    return visible(beginning(line, MAX_TEXT_CHARACTERS)); // it is no event
  }
}

/** What a record names as erased, or whether a given record names this event; a receipt stays valid. */
function Erasures({ receipt: { index, names } }: { receipt: Receipt }): JSX.Element {
  const { receipts } = useShown().state.check;
  const isNamed = (event: number, record: number): string =>
    `The event at index ${event} is named as erased by record ${record}.`;
  const lines: string[] = [];
  if (names) {
    const listed = names.slice(0, MAX_LISTED).join(', ') + (names.length > MAX_LISTED ? ', …' : '');
    lines.push(`Record ${index} names ${counted(names.length, 'event')} as erased: ${listed}.`);
  }
  for (const other of receipts.values()) {
    if (names && !other.names && names.includes(other.index)) lines.push(isNamed(other.index, index));
    if (!names && other.names?.includes(index)) lines.push(isNamed(index, other.index));
  }
  return (
    <>
      {lines.map((line) => (
        <p key={line}>{line}</p>
      ))}
    </>
  );
}

/** The fields of the event in a receipt, and its text. */
function ReceiptEvent({ receipt: { event, text } }: { receipt: Receipt }): JSX.Element {
  const { state, app } = useShown();
  const { stream, type, data } = event;
  const entity: Record<string, string> | undefined = app.entities.parse(stream);
  const metadata = event.metadata as { occurredAt?: unknown } | null | undefined;
  const others = Object.entries(data ?? {}).filter(([name, value]) => value !== entity?.[name]);
  const shown = (value: unknown): Entry[1] => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return text && <Cell value={text} />;
  };
  const entries: Entry[] = [
    ['stream', <StreamName name={stream} />],
    ['user', shown(entity?.user)],
    [`${app.entities.noun} ID`, shown(entity?.id)],
    ['time', state.zone.formatNamed(parseTime(metadata?.occurredAt))],
    ['type', shown(type)],
    ...others.map(([name, value]): Entry => [name, shown(value)]),
  ];
  return (
    <>
      <Facts entries={entries} />
      <Json text={indentedJson(text)} />
    </>
  );
}
