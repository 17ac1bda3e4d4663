import { once } from 'node:events';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { CommanderError } from 'commander';
import { expect } from 'vitest';
import { commandLine } from '../../src/commands/commandLine.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { tempDir } from '../support/tempDir.ts';

type Env = Record<string, string>;
/** `code` is null where the command was stopped, as by a signal. */
type Ended = { code: number | null; stdout: string; stderr: string };

/** Compiling the schema of the settings takes longer than most commands here: what is the same is read once. */
const configs = new Map<string, Config>();

function configOf(settings: Env): Config {
  const key = JSON.stringify(settings);
  const config = configs.get(key) ?? readConfig(settings);
  configs.set(key, config);
  return config;
}

/**
 * What is typed after `npm run -s`, run here instead of in a process of its own, where no DATA_DIR is given without one:
 * what it prints, and how it ends. The server, which needs a process, prints its name.
 */
export const typed = (
  args: readonly string[],
  env: Env = {},
  input: readonly (string | Uint8Array)[] = [],
): Promise<Ended> => typing(args, env, input).ended;

/** The same while it runs: what has been printed until now, and how to stop it. */
export function typing(
  args: readonly string[],
  env: Env = {},
  input: readonly (string | Uint8Array)[] = [],
): Typing {
  const settings = { DATA_DIR: env.DATA_DIR ?? join(tempDir(), 'data'), ...env };
  const stopping = new AbortController();
  let stdout = '';
  let stderr = '';
  let reader = Promise.resolve();
  const output = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, done) {
      stdout += text;
      this.emit('printed');
      void reader.then(() => done());
    },
  });
  const say = (line: string): void => {
    stderr += `${line}\n`;
  };
  const program = commandLine({
    server: async () => void output.write('server\n'),
    command: (run) =>
      run({
        get config() {
          return configOf(settings);
        },
        input: Readable.from(input.map((piece) => Buffer.from(piece))),
        output,
        say,
        onTerminal: false,
        signal: stopping.signal,
        onFatal: (error) => {
          throw error;
        },
      }),
  });
  for (const command of [program, ...program.commands]) {
    command.configureOutput({
      writeOut: (text) => void output.write(text),
      writeErr: (text) => {
        stderr += text;
      },
    });
  }
  const ended = (async (): Promise<Ended> => {
    try {
      await program.parseAsync(args, { from: 'user' });
    } catch (error) {
      if (error instanceof CommanderError) return { code: error.exitCode, stdout, stderr };
      if (!stopping.signal.aborted) say((error as Error).message);
      return { code: stopping.signal.aborted ? null : 1, stdout, stderr };
    }
    return { code: stopping.signal.aborted ? null : 0, stdout, stderr };
  })();

  return {
    ended,
    stdout: () => stdout,
    async printed(pattern) {
      while (!pattern.test(stdout)) {
        const over = await Promise.race([ended.then(() => true), once(output, 'printed').then(() => false)]);
        if (over && !pattern.test(stdout)) throw new Error(`ended without printing ${pattern}: ${stdout}`);
      }
    },
    pauseReader(until) {
      reader = until.then(() => {});
    },
    stop: () => stopping.abort(new Error('stopped by the test')),
  };
}

type Typing = {
  ended: Promise<Ended>;
  stdout: () => string;
  /** Resolves once the output fits; rejects where the command ends without it. */
  printed(pattern: RegExp): Promise<void>;
  /** Whoever reads the output takes no more than what has been written, until a promise is fulfilled. */
  pauseReader(until: Promise<unknown>): void;
  /** As a signal does it. */
  stop(): void;
};

/** Nothing is printed, and one line on stderr says what matches. */
export function expectRefused({ code, stdout, stderr }: Ended, line: RegExp): void {
  const oneLine = expect.stringMatching(RegExp(`^(?=.*(?:${line.source}))[^\\n]+\\n$`, 'u'));
  expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: oneLine });
}

/** What a command says on stderr besides its progress, of which it says more the slower the machine is. */
export function withoutProgress<E extends Ended>(ended: E): E {
  const line = /^\w+: \d+ events, \d+ %, \d+\/s, \d+ s left\n/gm;
  return { ...ended, stderr: ended.stderr.replaceAll(line, '') };
}
