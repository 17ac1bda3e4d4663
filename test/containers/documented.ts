import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { shellBlocksOf } from '../support/markdown.ts';

const textOf = (file: string) => readFileSync(join(import.meta.dirname, '../..', file), 'utf8');
const PAGE = textOf('docs/eventstoredb.md');
const [, STEPS = ''] = PAGE.split('\nThe volumes of Compose, ');

type Store = {
  image: string;
  environment: Record<string, string>;
  volumes: string[];
  security_opt: string[];
};

/** What docker-compose.yml says of its services. */
export const STORES: Record<string, Store> = parse(textOf('docker-compose.yml'), { merge: true }).services;

const [V23 = '', V24 = ''] = STEPS.match(/eventstore\/eventstore:[\w.-]+/g) ?? [];
const [, V26 = ''] = /:-(.*)\}/.exec(STORES.eventstore?.image ?? '') ?? [];

/** The images that the steps of an upgrade name, and that of docker-compose.yml. */
export const UPGRADED = { V23, V24, V26 };

const RUN = /^docker compose run --rm --no-deps --user (\S+) --entrypoint (\S+) (\S+) (.*)$/m;
const [, user = '', entrypoint = '', store = '', args = ''] =
  RUN.exec(shellBlocksOf(PAGE, 'Versions').join('')) ?? [];

/** The command that gives the files to the user of the other image. */
export const CHOWN = { user, entrypoint, store, args: args.split(' ') };

/** What an image logs that may not read the files. */
export const REFUSAL = RegExp((/`(Access .*?)`/.exec(PAGE)?.[1] ?? '').replace('…', '.*'));
