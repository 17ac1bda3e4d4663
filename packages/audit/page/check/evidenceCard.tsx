import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { useShown } from '../app.ts';
import { Button } from '../parts.tsx';
import { Card } from './card.tsx';

/** A file to compare with the log, chosen or dropped. */
export function Evidence(): JSX.Element {
  const { app } = useShown();
  const { checker } = app.readers();
  const input = useRef<HTMLInputElement>(null);
  const text = (
    <>
      A receipt of a {app.entities.noun} or of a record of erasures (<code>.tlog-proof</code>), or a
      checkpoint that you kept: does the log still have it?
    </>
  );
  return (
    <Card id="evidence" title="4. Your evidence" text={text}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: its button is for the keyboard */}
      <div
        class="drop actions"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          void checker.checkFile(event.dataTransfer?.files[0]);
        }}
      >
        <Button class="choose primary" onClick={() => input.current?.click()}>
          Choose a file
        </Button>
        or drop it here
        <input
          ref={input}
          type="file"
          hidden
          onChange={({ currentTarget }) => {
            void checker.checkFile(currentTarget.files?.[0]);
            currentTarget.value = '';
          }}
        />
      </div>
    </Card>
  );
}
