import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { errorMessage } from '../api.ts';
import { useShown } from '../app.ts';
import { saveFile } from '../dom.ts';
import { replayFile } from '../events.ts';
import { Button } from '../parts.tsx';
import { queryOf } from '../route.ts';

/** Saves all matching events as a file. */
export function Download(): JSX.Element {
  const { state, app } = useShown();
  const [isBusy, setBusy] = useState(false);
  const [said, say] = useState('');
  async function save(): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    say('');
    try {
      const query = queryOf(state.route, state.zone);
      saveFile('events.ndjson', await replayFile(app.readers().api, query));
    } catch (error) {
      say(errorMessage(error));
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      <output class="status">{said}</output>
      <Button class="download" aria-disabled={isBusy} onClick={save}>
        {isBusy ? 'Downloading…' : 'Download NDJSON'}
      </Button>
    </>
  );
}
