import { CommanderError } from 'commander';
import { commandLine } from './commandLine.ts';
import { runCommand } from './runCommand.ts';

// Without arguments the process is the server, with arguments a command. Each loads only its own modules: loading takes
// most of the time of a short command.

const args = process.argv.slice(2);
const program = commandLine(args, {
  serve: async () => (await import('./serve.ts')).serve(process),
  run: (command) => runCommand(command, process),
});
program.parseAsync(args, { from: 'user' }).catch(async (error: Error & { exitCode?: number }) => {
  // Commander has already printed its own errors.
  if (!(error instanceof CommanderError)) {
    const { errorText } = await import('@event-sourced/node/cli');
    process.stderr.write(`${errorText(error)}\n`);
  }
  process.exit(error.exitCode ?? 1);
});
