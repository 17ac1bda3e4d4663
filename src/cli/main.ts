import { CommanderError } from 'commander';
import { commandLine } from './commandLine.ts';
import { runCommand } from './runCommand.ts';

// The process: without arguments it is the server, with arguments a command. Each loads its modules when it
// runs, since loading them is most of the time that a short command takes.

const args = process.argv.slice(2);
const program = commandLine(args, {
  serve: async () => (await import('./serve.ts')).serve(process),
  run: (command) => runCommand(command, process),
});
program.parseAsync(args, { from: 'user' }).catch((error: Error & { exitCode?: number }) => {
  // Commander has printed its own.
  if (!(error instanceof CommanderError)) process.stderr.write(`${error.message}\n`);
  process.exit(error.exitCode ?? 1);
});
