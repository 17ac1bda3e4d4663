import { Command } from 'commander';
import { EventQuery } from '../audit/eventFilter.ts';
import type { Surroundings } from './surroundings.ts';

type Run = {
  server(): Promise<void>;
  /** Runs a command, with its surroundings. */
  command(run: (surroundings: Surroundings) => Promise<void>): Promise<void>;
};

/** The command line: without a command the server. What a command needs is loaded when it runs. */
export function commandLine(run: Run): Command {
  const program = new Command('npm run -s')
    .description('Runs the service (npm start), or one of its commands (npm run -s COMMAND -- …).')
    .addHelpText('after', '\nSettings come from the environment and from .env; README.md lists them.')
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({ outputError: (text, output) => output(withoutValues(text)) })
    .action((_options, { args: [unknown] }: Command) => {
      if (unknown === undefined) return run.server();
      const name = /^[\w-]+$/.test(unknown) ? ` ${unknown}` : ' of that name';
      const known = program.commands.map((command) => command.name()).join(', ');
      throw new Error(`there is no command${name}; there is npm start, and npm run -s ${known}`);
    });

  program
    .command('token')
    .description('Prints a token for USER, signed with the key of the service.')
    .usage('-- USER [options]')
    .argument('<user>', 'Whom the token speaks for.')
    .option(
      '--expires <time>',
      'How long it holds: a number and a unit, such as 90s, 15m, 12h or 30d.',
      '30d',
    )
    .option('--scope <scope>', 'What it allows besides; audit: to read the events of everybody.')
    .action((user, options) =>
      run.command(async (surroundings) =>
        (await import('./token.ts')).tokenCommand(user, options, surroundings),
      ),
    );

  // Its arguments may hold a password, which no message may repeat: it reads them itself.
  program
    .command('copy')
    .description('Copies the log between EventStoreDB and a data directory.')
    .usage('-- --from <url|dir> --to <url|dir>')
    .allowUnknownOption()
    .allowExcessArguments()
    .action((_options, { args }: Command) =>
      run.command(async (surroundings) => (await import('./copy.ts')).copyCommand(args, surroundings)),
    );

  withFilters(program.command('replay'))
    .description('Prints the events of the log, as CloudEvents, one a line.')
    .usage('-- [options]')
    .option('--follow', 'Go on with each new event.')
    .option('--table', 'Print a table to read, instead of JSON.')
    .action((options) =>
      run.command(async (surroundings) => (await import('./replay.ts')).replayCommand(options, surroundings)),
    );

  program
    .command('plants')
    .description('Prints the plants of a user, now or as they were.')
    .usage('-- --user USER [options]')
    .requiredOption('--user <user>', 'Whose plants.', once('user'))
    .option('--at <when>', 'A position of the log, or a time (RFC 3339).', once('at'))
    .action((options) =>
      run.command(async (surroundings) => (await import('./plants.ts')).plantsCommand(options, surroundings)),
    );

  program
    .command('verify')
    .description('Reads the whole log; prints its size and root, and all that is wrong with it or the view.')
    .usage('-- [options]')
    .option(
      '--expect <size:root>',
      'What an earlier verify has printed: those events must be unchanged.',
      once('expect'),
    )
    .option('--json', 'Print JSON.')
    .action((options) =>
      run.command(async (surroundings) => (await import('./verify.ts')).verifyCommand(options, surroundings)),
    );

  program
    .command('prove')
    .description('Prints a Merkle proof: that a plant is in the log, or that the log has only grown.')
    .usage('-- --user USER --id ID [--size N] | --from SIZE [--to SIZE]')
    .option('--user <user>', 'The owner of the plant.', once('user'))
    .option('--id <id>', 'The id of the plant.', once('id'))
    .option('--size <events>', 'In the log of so many events; by default all of them.', once('size'))
    .option('--from <events>', 'The size of the log then.', once('from'))
    .option('--to <events>', 'The size of the log later; by default now.', once('to'))
    .action((options) =>
      run.command(async (surroundings) => (await import('./prove.ts')).proveCommand(options, surroundings)),
    );

  program
    .command('check-proof')
    .description('Reads a proof from standard input and says what it shows; needs no log.')
    .usage('< proof.json')
    .action(() =>
      run.command(async (surroundings) => (await import('./prove.ts')).checkProofCommand(surroundings)),
    );

  program
    .command('rebuild')
    .description('Throws the view away and builds it anew; the server has to be stopped.')
    .usage('')
    .action(() =>
      run.command(async (surroundings) => (await import('./rebuild.ts')).rebuildCommand(surroundings)),
    );

  program
    .command('backup')
    .description('Copies the embedded log to a new file, also while the server runs.')
    .usage('-- FILE')
    .argument('<file>', 'A file that is not there yet.')
    .action((file) =>
      run.command(async (surroundings) => (await import('./backup.ts')).backupCommand(file, surroundings)),
    );

  program.allowExcessArguments(); // here, since its commands would inherit it: they take no other arguments
  return program;
}

/** A message without what was typed in a wrong place: it may be a password. */
function withoutValues(text: string): string {
  return text
    .replace(/(?<=option '-[^'=]*=)[^']*/s, '…')
    .replace(/(?<=but got \d+): .*/s, '; with npm, options go after --.\n');
}

/** The parts of a filter, as options with the words that describe them in the API. */
function withFilters(command: Command): Command {
  for (const [part, schema] of Object.entries<object>(EventQuery.properties))
    command.option(`--${part} <value>`, Reflect.get(schema, 'description'), once(part));
  return command;
}

/** Reads an option that has one value: of several, none is meant. */
const once = (name: string) => (value: string, before: string | undefined) => {
  if (before !== undefined) throw new Error(`--${name} must be given once.`);
  return value;
};
