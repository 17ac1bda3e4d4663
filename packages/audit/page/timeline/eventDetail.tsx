import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { errorMessage, isNotFound } from '../api.ts';
import { useShown } from '../app.ts';
import { saveFile } from '../dom.ts';
import { namesOf, type ShownEvent } from '../events.ts';
import { Button, Cell, CopyButton, type Entry, Facts, Json, StreamName } from '../parts.tsx';
import { url } from '../route.ts';
import { indentedJson } from '../text.ts';
import { ErasedEvent, ErasureRecord } from './erasure.tsx';

/** Attributes that every event of a log shares, and those that the JSON shows better. */
const HIDDEN = [
  'specversion',
  'source',
  'datacontenttype',
  'data',
  'metadata',
  'dataandmetadata',
  'data_base64',
];

/** What an event says, what can be done with it, and then its envelope and its JSON. */
export function EventDetail({ event }: { event: ShownEvent }): JSX.Element {
  const { entities } = useShown().app;
  const names = namesOf(event);
  const text = indentedJson(event.json);
  return (
    <>
      {names ? (
        <ErasureRecord names={names} />
      ) : event.erased === undefined ? (
        <Facts name="data" entries={dataOf(event)} />
      ) : (
        <ErasedEvent event={event} />
      )}
      <p class="actions">
        <CopyButton label="Copy JSON" text={text} />
        {entities.parse(event.subject) && <EntityActions event={event} />}
        <a href={linkTo(event)}>Link to this event</a>
      </p>
      <Envelope event={event} />
      <Json text={text} />
    </>
  );
}

const shown = (value: unknown): Entry[1] => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text && <Cell value={text} />;
};

function dataOf({ data }: ShownEvent): Entry[] {
  return typeof data === 'object'
    ? Object.entries(data ?? {}).map(([name, value]) => [name, shown(value)])
    : [];
}

/** The filters that match this event, and its position. */
function linkTo({ time, type, position }: ShownEvent): string {
  const at = Number.isFinite(time) ? new Date(time).toISOString() : '';
  return url('timeline', { type, since: at, until: at, position: String(position) });
}

/** The attributes of an event. */
function Envelope({ event }: { event: ShownEvent }): JSX.Element {
  const { zone } = useShown().state;
  const attributes = Object.entries(JSON.parse(event.json)).filter(([name]) => !HIDDEN.includes(name));
  const entries = attributes.map(([name, value]): Entry => {
    if (name === 'time') return [name, zone.formatNamed(event.time)];
    if (name === 'subject') return ['stream', <StreamName name={String(value)} />];
    return [name === 'id' ? 'event ID' : name, shown(value)];
  });
  return <Facts name="envelope" entries={entries} />;
}

/** What can be done with an event of an entity. */
function EntityActions({ event }: { event: ShownEvent }): JSX.Element {
  const { app } = useShown();
  const { entities, readers } = app;
  const { noun } = entities;
  const { user = '', id = '' } = entities.parse(event.subject) ?? {};
  const at = Number.isFinite(event.time) ? new Date(event.time).toISOString() : '';
  const [said, say] = useState<string | JSX.Element>('');

  async function saveReceipt(): Promise<void> {
    try {
      const path = `proofs/${noun}s?${new URLSearchParams({ user, id })}`;
      const receipt = await readers().api.get(path, 'text/plain');
      saveFile(`${noun}-${id}.tlog-proof`, await receipt.blob());
      say(
        <>
          Saved. <a href={url('check')}>Check it</a>
        </>,
      );
    } catch (error) {
      say(
        isNotFound(error) ? 'The service has no Merkle tree, so it gives no receipts.' : errorMessage(error),
      );
    }
  }

  return (
    <>
      <Button class="receipt" onClick={saveReceipt}>
        Receipt
      </Button>
      <output class="status">{said}</output>
      <a href={url('timeline', { user })}>Only this user</a>
      <a href={url('point-in-time', { user, at })}>This user’s {noun}s then</a>
    </>
  );
}
