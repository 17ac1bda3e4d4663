import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile, replacePath } from '../files/stateFile.ts';
import { printable } from '../notes/printable.ts';
import type { Alarm } from './alarm.ts';
import { runOnAlarm } from './onAlarm.ts';

/** If evidence cannot be written, it is printed up to this size: checkpoints and proofs are smaller. */
const MAX_PRINTED_BYTES = 128 * 1024;

type Options = { path: string; program: string | undefined; print: (line: string) => void };

/** The evidence of an alarm. While the directory exists, the log is not checked. */
export class AlarmDirectory {
  readonly path: string;
  readonly #program: string | undefined;
  readonly #print: (line: string) => void;

  /** `program` is the value of --on-alarm. */
  constructor({ path, program, print }: Options) {
    this.path = path;
    this.#program = program;
    this.#print = print;
  }

  get exists(): boolean {
    return existsSync(this.path);
  }

  /** Writes the evidence, and runs the program. Returns the lines to print, with evidence that could not be written. */
  async raise(alarm: Alarm): Promise<string> {
    const { message, evidence } = alarm;
    const text = formatAlarm(alarm);
    const failure = await this.#write(text, evidence).catch((error: Error) => error);
    await this.#notify(() => text);
    if (!failure) return printable(`ALARM: ${message}; the evidence is in ${this.path}; see docs/alarms.md`);
    const short = evidence.filter(({ content }) => content.length <= MAX_PRINTED_BYTES);
    return [
      printable(`ALARM: ${message}; the evidence could not be written: ${failure.message}`),
      ...short.map(({ name, content }) => `${name}, in Base64: ${content.toString('base64')}`),
    ].join('\n');
  }

  /** Runs the program for an earlier alarm if it failed or was killed. */
  async notifyAgain(): Promise<void> {
    if (existsSync(this.#notified)) return;
    await this.#notify(() => readFile(join(this.path, 'alarm.txt'), 'utf8'));
  }

  /** Creates the directory atomically. @throws Error */
  async #write(text: string, evidence: Alarm['evidence']): Promise<void> {
    const draft = `${this.path}.draft`;
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o700 });
    for (const { name, content } of [{ name: 'alarm.txt', content: Buffer.from(text) }, ...evidence])
      await replaceFile(join(draft, name), content);
    await replacePath(draft, this.path);
  }

  async #notify(read: () => string | Promise<string>): Promise<void> {
    if (!this.#program) return;
    try {
      await runOnAlarm(this.#program, await read());
    } catch (error) {
      return this.#print(printable(`the program of --on-alarm failed: ${(error as Error).message}`));
    }
    if (!this.exists) return;
    await replaceFile(this.#notified, '').catch(({ message }) => this.#print(printable(message)));
  }

  /** A file that exists after the program has run. */
  get #notified(): string {
    return join(this.path, 'notified');
  }
}

function formatAlarm({ message, evidence }: Alarm): string {
  const commands = evidence.flatMap((file) => file.commands ?? []);
  const verify = commands.length > 0 ? ['', 'Verify with the scripts of docs/tools:', ...commands] : [];
  return [printable(`${new Date().toISOString()}  ALARM: ${message}`), ...verify, ''].join('\n');
}
