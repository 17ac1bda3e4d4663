import { EVENT_ERASED, EVENTS_ERASED } from '@event-sourced/event-log/erasure';
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useShown } from '../app.ts';
import type { ShownEvent } from '../events.ts';
import { Button, Cell, Facts } from '../parts.tsx';
import { url } from '../route.ts';
import { counted } from '../text.ts';
import { findStubs } from './stubs.ts';

const MAX_LISTED = 20;

/** The record of an erasure in words, with a link to each stub. */
export function ErasureRecord({ names }: { names: readonly number[] }): JSX.Element {
  const { app } = useShown();
  const [listed, setListed] = useState(MAX_LISTED);
  const [stubs, setStubs] = useState<ReadonlyMap<number, bigint>>(new Map());
  const shown = names.slice(0, listed);
  useEffect(() => {
    const closing = new AbortController();
    findStubs(app.readers().api, shown, closing.signal).then(setStubs, () => {}); // then the links are missing
    return () => closing.abort();
  }, [names, listed]);
  const more = names.length - shown.length;
  return (
    <div class="words">
      <p>
        This record says that <b>{counted(names.length, 'event')}</b> before it{' '}
        {names.length === 1 ? 'was' : 'were'} erased. The content is overwritten. In the place of each event
        is a stub with its digest, so sizes, roots and proofs stay as they are. The record does not say whose
        events they were.
      </p>
      <p class="stubs">
        {names.length === 1 ? 'Index' : 'Indices'} in the tree:{' '}
        {shown.map((index) => {
          const position = stubs.get(index);
          if (position === undefined) return <span key={index}>{index}</span>;
          const link = url('timeline', { type: EVENT_ERASED, position: String(position) });
          return (
            <a key={index} href={link}>
              {index}
            </a>
          );
        })}
        {more > 0 && <Button onClick={() => setListed(names.length)}>and {more} more</Button>}
      </p>
    </div>
  );
}

/** What is left of an erased event. */
export function ErasedEvent({ event }: { event: ShownEvent }): JSX.Element {
  const { type, sha256 } = (event.data ?? {}) as { type?: unknown; sha256?: unknown };
  return (
    <div class="words">
      <p>
        This event was <b>erased</b>: its content is overwritten, and only its digest remains. A later record
        must name it: <a href={url('timeline', { type: EVENTS_ERASED })}>the records</a>. The check reads
        whether one does.
      </p>
      <Facts
        name="data"
        entries={[
          ['type before', <Cell value={type} />],
          ['SHA-256', <Cell value={sha256} />],
        ]}
      />
    </div>
  );
}
