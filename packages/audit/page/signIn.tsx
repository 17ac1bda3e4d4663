import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { useShown } from './app.ts';
import { Command } from './parts.tsx';

/** Asks for the token. The field has no name: nothing can put the token into a URL. */
export function SignIn(): JSX.Element {
  const { state, app } = useShown();
  const { problem, isBusy } = state.session;
  const { title, noun, command } = app.entities.data;
  const token = useRef<HTMLInputElement>(null);
  return (
    <section id="sign-in" aria-labelledby="sign-in-title">
      <h2 id="sign-in-title">The log of {title}, for auditors</h2>
      <p class="lead">
        Each change is an event in an append-only log that the service signs. Here you read the events, see
        the {noun}s of a user at any point in time, and check that the log is what it signs.
      </p>
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          app.signIn(token.current?.value.trim() ?? '');
        }}
      >
        <label>
          Token
          <input
            id="token"
            ref={token}
            class="secret"
            required
            data-title
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            aria-describedby="token-note"
            aria-invalid={problem ? 'true' : undefined}
          />
        </label>
        <p role="alert" class="problem">
          {problem}
        </p>
        <span class="actions">
          <button type="submit" class="primary" aria-disabled={isBusy}>
            {isBusy ? 'Signing in…' : 'Sign in'}
          </button>
        </span>
        <p id="token-note">
          It needs the scope <code>audit</code>. This page keeps it in memory only, until it is closed or
          reloaded.
        </p>
      </form>
      <details open={problem !== ''}>
        <summary>Where does a token come from?</summary>
        <p>
          From your identity provider. If the service has its own key, its operators make one on its machine:
        </p>
        <Command text={`${command} token carol --scope audit`} />
      </details>
      <p>
        The API has a <a href="docs">reference</a>. The file <code>docs/auditing.md</code> of the service says
        what auditors can check, and how.
      </p>
    </section>
  );
}
