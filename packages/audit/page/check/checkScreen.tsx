import { formatVerifierKey } from '@event-sourced/tlog';
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { useShown } from '../app.ts';
import { saveFile } from '../dom.ts';
import { Button, CopyButton, Facts, Isolated, Nothing, Title } from '../parts.tsx';
import { url } from '../route.ts';
import { count, counted, visible } from '../text.ts';
import { Card } from './card.tsx';
import { Evidence } from './evidenceCard.tsx';
import { MARKS, overall } from './overall.ts';

/** Checks of the log in four cards, and what they say together. */
export function CheckScreen(): JSX.Element {
  const { state, app } = useShown();
  const { hasTree } = state.check;
  return (
    <section id="check" aria-labelledby="check-title">
      <div class="title">
        <Title id="check">Check</Title>
      </div>
      {hasTree === false ? (
        <Nothing title="This service has no Merkle tree.">
          <p>
            It runs with <code>MERKLE_TREE=off</code>, so there is nothing to check here. On its machine,{' '}
            <code>{app.entities.data.command} verify</code> reads the log.
          </p>
        </Nothing>
      ) : (
        <>
          <p class="lead">
            Computed in this browser, from the key. But the code of this page comes from the service: to trust
            nothing but the key, run <code>bin/transparency-log monitor</code> elsewhere.
          </p>
          <OverallVerdict />
          <div class="steps">
            <KeyCard />
            <CheckpointCard />
            <WholeCard />
            <Evidence />
          </div>
        </>
      )}
    </section>
  );
}

/** The result of all cards: what was checked, when, and with which key. */
function OverallVerdict(): JSX.Element {
  const { state, app } = useShown();
  const { check, zone } = state;
  const { verdict, text, topic } = overall(check);
  const { key, compared, checkpoint, results, checkedAt } = check;
  const head = results.whole?.verdict === 'good' ? compared : checkpoint;
  return (
    <div class="verdict" role="status" data-state={verdict}>
      <p class="outcome">
        <Isolated text={visible(`${verdict ? `${MARKS[verdict]} ` : ''}${text}`)} />
      </p>
      {topic && <a href={url('help', { about: topic })}>What to do</a>}
      {verdict === 'unknown' && key && (
        <Button onClick={() => app.readers().checker.checkSignature(formatVerifierKey(key))}>
          Try again
        </Button>
      )}
      {key && (
        <Facts
          entries={[
            ['Key', visible(formatVerifierKey(key))],
            ['Root', head?.root],
            ['Checked', checkedAt && zone.formatNamed(checkedAt)],
          ]}
        />
      )}
    </div>
  );
}

function KeyCard(): JSX.Element {
  const { app, state } = useShown();
  const { command, noun } = app.entities.data;
  const field = useRef<HTMLInputElement>(null);
  const check = (): void => void app.readers().checker.checkSignature(field.current?.value.trim() ?? '');
  const text = (
    <>
      The verifier key of the log, which <code>{command} log-key</code> prints on its machine. Get it from a
      person you trust, not from the service.
    </>
  );
  const { key, results } = state.check;
  return (
    <Card id="key" title="1. The key" text={text}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          check();
        }}
      >
        <label>
          Verifier key
          <input
            ref={field}
            class="key-field"
            required
            defaultValue={key && formatVerifierKey(key)}
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            placeholder={`${noun}s.example/log+530d903a+Aekye…`}
          />
        </label>
        <span class="actions">
          <button type="submit" class="primary">
            {key && results.key?.verdict === 'unknown' ? 'Try again' : 'Check the log'}
          </button>
        </span>
      </form>
    </Card>
  );
}

function CheckpointCard(): JSX.Element {
  const { checkpoint, results } = useShown().state.check;
  const text = 'Its size, and the root of its Merkle tree, signed with that key.';
  return (
    <Card id="checkpoint" title="2. What the log signs" text={text}>
      {checkpoint && results.checkpoint?.verdict === 'good' && (
        <>
          <Facts
            entries={[
              ['Log', visible(checkpoint.origin)],
              ['Events', count(checkpoint.size)],
              ['Root', checkpoint.root],
            ]}
          />
          <p class="actions">
            <CopyButton label="Copy root" text={checkpoint.root} />
            <CopyButton label="Copy checkpoint" text={checkpoint.note} />
            <Button onClick={() => saveFile(`checkpoint-${checkpoint.size}`, new Blob([checkpoint.note]))}>
              Save checkpoint
            </Button>
          </p>
        </>
      )}
    </Card>
  );
}

function WholeCard(): JSX.Element {
  const { app, state } = useShown();
  const { reading } = state.check;
  const { checker } = app.readers();
  const text =
    'Reads every event, and compares it with its entry in the tree that has the signed root. Each erased event must be on record.';
  return (
    <Card id="whole" title="3. The whole log" text={text}>
      <span class="actions">
        <Button
          class={reading ? 'read' : 'read primary'}
          onClick={() => (reading ? checker.stop() : checker.readWholeLog())}
        >
          {reading ? 'Stop' : 'Read the whole log'}
        </Button>
      </span>
      {reading && <Reading {...reading} />}
    </Card>
  );
}

/** How far the log was read, and how long the rest takes. */
function Reading({
  events,
  size,
  startedAt,
}: {
  events: number;
  size: number;
  startedAt: number;
}): JSX.Element {
  const seconds = (performance.now() - startedAt) / 1_000;
  const left = Math.ceil((seconds * (size - events)) / events);
  return (
    <div class="reading">
      <progress aria-label="Events read" max={Math.max(size, 1)} value={events} />
      <p class="pace">
        {count(events)} of {counted(size, 'event')}
        {events > 0 && `, ${counted(left, 'second')} left`}
      </p>
    </div>
  );
}
