import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { type Ended, startProgram } from '../../packages/transparency-log/test/support/program.ts';
import { commandLine } from '../../src/cli/commandLine.ts';
import { readConfig } from '../../src/config.ts';

export { expectRefused, succeeded } from '../../packages/transparency-log/test/support/program.ts';

/**
 * Runs the arguments after `bin/plant-store` in this process; the default of DATA_DIR does not exist. Returns
 * the output and the exit code. The server, which needs a process, prints its name.
 */
export const runCli = (...given: Parameters<typeof startCli>): Promise<Ended> => startCli(...given).ended;

/** Starts the command, and returns its output so far and a way to stop it. */
export function startCli(args: readonly string[], env: Record<string, string> = {}) {
  const settings = { DATA_DIR: env.DATA_DIR ?? join(tempDir(), 'data'), MERKLE_TREE: 'on', ...env };
  return startProgram(args, (io) =>
    commandLine(args, {
      serve: async () => void io.output.write('server\n'),
      run: (command) =>
        command({
          ...io,
          get config() {
            return readConfig(settings);
          },
          env: settings,
          onTerminal: false,
          onFatal: (error) => {
            throw error;
          },
        }),
    }),
  );
}

/** The result of a command that fails with this line and prints nothing else. */
export const failure = (line: string): Ended => ({ code: 1, stdout: '', stderr: `${line}\n` });

/** The result of a command without the progress lines on stderr, whose number depends on the machine. */
export function withoutProgress<E extends Ended>(ended: E): E {
  const line = /^\w+: \d+ events, \d+ %, \d+\/s, \d+ s left\n/gm;
  return { ...ended, stderr: ended.stderr.replaceAll(line, '') };
}
