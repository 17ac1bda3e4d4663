import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useShown } from '../app.ts';
import { Filters } from '../filters.tsx';
import { Button, Command, Frame, Nothing, ProblemText, Title } from '../parts.tsx';
import { filtersOf } from '../route.ts';
import { counted } from '../text.ts';
import { Chart } from './chart.tsx';
import { Chips } from './chips.tsx';
import { countText } from './countText.ts';
import { Download } from './download.tsx';
import { EventTable } from './eventTable.tsx';

/** The events of the log: filters, a chart, and rows, newest first. */
export function TimelineScreen(): JSX.Element {
  const { state, app } = useShown();
  const { timeline, route } = state;
  const { status, problem, events, users, types } = timeline;
  const [isOpen, setOpen] = useState(false); // on narrow screens
  const isFiltered = filtersOf(route).length > 0;
  const isEmptyLog = !isFiltered && isNone(timeline);
  const problemText = <ProblemText problem={problem} onRetry={() => app.go('timeline', route.fields)} />;
  const showsProblem = status === 'failed' && (problem?.isRefused || !events);
  return (
    <section
      id="timeline"
      aria-labelledby="timeline-title"
      onKeyDown={({ key }) => key === 'Escape' && setOpen(false)}
      onSubmit={() => setOpen(false)}
    >
      <div class="title">
        <Title id="timeline">Timeline</Title>
        {!isEmptyLog && (
          <Button class="show-filters" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Filters
          </Button>
        )}
      </div>
      {!isEmptyLog && (
        <>
          <Filters
            screen="timeline"
            problem={problem}
            suggestions={{ user: users, type: types }}
            submit="Filter"
            name={isOpen || problem?.field ? 'shown' : ''}
          />
          <Chips />
        </>
      )}
      {!showsProblem && problemText}
      {isEmptyLog ? (
        <EmptyLog />
      ) : showsProblem ? (
        <Nothing>
          {problemText}
          {problem?.isRefused && <ClearFilters />}
        </Nothing>
      ) : events ? (
        <Results />
      ) : (
        status === 'loading' && <Frame rows={10} label="Loading the events…" />
      )}
    </section>
  );
}

/** Whether no event matches. */
const isNone = ({ status, events, page, hasOlder, isTurning }: TimelineProps): boolean =>
  status === 'shown' && events?.length === 0 && page === 0 && !hasOlder && !isTurning;
type TimelineProps = ReturnType<typeof useShown>['state']['timeline'];

function Results(): JSX.Element {
  const { state, app } = useShown();
  const { timeline, route, zone } = state;
  const { counts, events = [], status } = timeline;
  const isFiltered = filtersOf(route).length > 0;
  const select = (range: Record<string, string>): void => app.go('timeline', { ...route.fields, ...range });
  return (
    <div class="results" aria-busy={status === 'loading'}>
      {isNone(timeline) ? (
        <Nothing title="No event matches.">
          <ClearFilters />
        </Nothing>
      ) : (
        <>
          {counts ? (
            <Chart counts={counts} zone={zone} isFiltered={isFiltered} onSelect={select} />
          ) : (
            <div class="chart frame" />
          )}
          <Toolbar text={countText(timeline, isFiltered)} />
          {events.length > 0 ? <EventTable /> : <Frame rows={10} label="Loading the events…" />}
          <Toolbar />
        </>
      )}
    </div>
  );
}

function ClearFilters(): JSX.Element {
  const { app } = useShown();
  return (
    <p>
      <Button class="clear" onClick={() => app.go('timeline', {})}>
        Clear the filters
      </Button>
    </p>
  );
}

/** The pager, above the rows with their number, and below. */
function Toolbar({ text }: { text?: string }): JSX.Element {
  const { state, app } = useShown();
  const { page, hasOlder, unseen } = state.timeline;
  const turn = (to: number): void => void app.readers().timeline.turnTo(to);
  const isAbove = text !== undefined;
  return (
    <div class={`toolbar ${isAbove ? 'above' : 'below'}`}>
      {isAbove && (
        <p class="count" role="status">
          {text}
          <span class={page === 0 ? 'newest-first' : ''}>
            {page === 0 ? ', newest first' : `, page ${page + 1}`}
          </span>
        </p>
      )}
      <Download />
      <span class="actions">
        {isAbove && page > 0 && (
          <Button class="newest" onClick={() => turn(0)}>
            {unseen > 0 ? `Newest (${unseen} new)` : 'Newest'}
          </Button>
        )}
        <Button class="newer" disabled={page === 0} onClick={() => turn(page - 1)}>
          Newer
        </Button>
        <Button class="older" disabled={!hasOlder} onClick={() => turn(page + 1)}>
          Older
        </Button>
      </span>
    </div>
  );
}

/** The request that creates the first entity. */
function EmptyLog(): JSX.Element {
  const { noun, data } = useShown().app.entities;
  const { path, body } = data.create;
  const base = new URL('.', location.href).href;
  const request = `curl -s ${base}${path} -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '${body}'`;
  return (
    <div class="empty-log">
      <Nothing title={`The log is empty: ${counted(0, 'event')}.`}>
        <p>A user creates the first {noun}, and it appears here:</p>
        <Command text={`TOKEN=$(${data.command} token alice)\n${request}`} />
      </Nothing>
    </div>
  );
}
