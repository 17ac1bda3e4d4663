import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { useShown } from './app.ts';
import type { Topic } from './check/checkState.ts';
import { overall } from './check/overall.ts';
import { focus } from './dom.ts';
import { Isolated } from './parts.tsx';
import { url } from './route.ts';
import { visible } from './text.ts';

const TOPICS: Record<Topic, readonly [title: string, text: string]> = {
  key: [
    'The signature is invalid, or the service states another key',
    'You are connected to another service, or the log has a new key or name. Compare the key with the person who gave it to you.',
  ],
  tiles: [
    'Tiles, an entry or an event differ',
    'The log or its tree was altered or damaged, or the network changed the bytes. Ask the operators to run verify: it finds which one it was.',
  ],
  lost: [
    'The log lost events',
    'Events were removed, or a backup was restored. It proves nothing to others, since checkpoints have no time. Ask the operators whether a backup was restored, and when.',
  ],
  evidence: [
    'The log does not begin with your evidence',
    'Events were altered, removed or inserted, or you see another log than others. Keep the file and the checkpoint: only the key of the log can sign both. Compare checkpoints with other auditors.',
  ],
  erasures: [
    'An erasure is not on record, or a record is false',
    'An erased event must be named by a later record, and each event that a record names must be erased. Otherwise an event was hidden or put back, or a record was erased or invented. Keep the JSON of these events, and ask the operators to run verify: it finds the same.',
  ],
  file: [
    'A file cannot be checked',
    'It is no receipt and no checkpoint, it is of another log, or it was altered. That says nothing about the log: ask its sender for the file again. Receipts end in .tlog-proof; a monitor keeps a checkpoint in monitor.checkpoint.',
  ],
};

/** What the words mean, and what to do when a check fails. */
export function Help(): JSX.Element {
  const { state } = useShown();
  const { about = '' } = state.route.fields;
  useEffect(() => {
    if (about in TOPICS) focus(`#help-${about}`);
  }, [about]);
  const { verdict, text } = overall(state.check);
  return (
    <section id="help" class="card" aria-labelledby="help-title">
      <h2 id="help-title" tabIndex={-1} data-title>
        Help
      </h2>
      {verdict !== undefined && verdict !== 'good' && (
        <p class={`back ${verdict}`}>
          <Isolated text={visible(text)} /> <a href={url('check')}>Back to the check</a>
        </p>
      )}
      <p>
        Each change is an <b>event</b>, appended to the log. The <b>root</b> is a digest of all events: it
        differs if one of them does. A <b>checkpoint</b> is the number of events and their root, signed. A{' '}
        <b>receipt</b> is a file that proves that an event is in the log.
      </p>
      <h3>If a check fails</h3>
      <p>
        First save the checkpoint, and copy your files elsewhere: they are the evidence. Repeat the check, by
        another network if you can.
      </p>
      {Object.entries(TOPICS).map(([topic, [title, text]]) => (
        <div key={topic}>
          <h3 id={`help-${topic}`} tabIndex={-1}>
            {title}
          </h3>
          <p>{text}</p>
        </div>
      ))}
      <h3>Something could not be asked</h3>
      <p>
        A check without an answer says nothing about the log. Try again; if it stays so, check the network,
        and ask the operators whether the service runs.
      </p>
      <h3>If you are not convinced</h3>
      <p>
        If the explanation of the operators does not convince you, show the evidence to other auditors. The
        file <code>docs/alarms.md</code> of the service has more, and commands that prove two histories.
      </p>
    </section>
  );
}
