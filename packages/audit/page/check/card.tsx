import type { ComponentChildren, JSX } from 'preact';
import { useShown } from '../app.ts';
import type { Card as CardName } from './checkState.ts';
import { ResultText } from './resultText.tsx';

type CardProps = { id: CardName; title: string; text: ComponentChildren; children?: ComponentChildren };

/** A check with its result. */
export function Card({ id, title, text, children }: CardProps): JSX.Element {
  const { results, checkpoint } = useShown().state.check;
  const result = results[id];
  const waits = id !== 'key' && !checkpoint;
  return (
    <section id={id} class={`card ${result ? '' : 'without-result'}`} aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{title}</h3>
      <p>{text}</p>
      {(id === 'key' || !waits) && children}
      <div class="result" role="status">
        {result ? (
          <ResultText result={result} />
        ) : (
          waits && <p class="waits">Waits for a key that has signed the log.</p>
        )}
      </div>
    </section>
  );
}
