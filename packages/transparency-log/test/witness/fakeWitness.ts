import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { parseConsistencyProof } from '../../src/notes/proof.ts';
import { formatVerifierKey } from '../../src/notes/signedNote.ts';
import { toVerifierKey } from '../../src/sign/signCheckpoint.ts';
import { cosign } from '../../src/witness/cosignature.ts';
import { type PolicyWitness, parsePolicy } from '../../src/witness/policy.ts';
import { keyNamed } from '../notes/keys.ts';

type Submitted = ReturnType<typeof parseConsistencyProof>;

/** A witness that cosigns everything it is asked for, unless `respond` is replaced. */
export class FakeWitness {
  readonly name: string;
  /** What it was asked for. */
  readonly submitted: Submitted[] = [];
  /** When it cosigns, in seconds since 1970. */
  time = Math.floor(Date.now() / 1_000);
  respond = (submitted: Submitted, response: ServerResponse): void => void response.end(this.sign(submitted));
  url = '';

  constructor(name: string) {
    this.name = name;
  }

  sign({ checkpoint }: Submitted): string {
    return cosign(checkpoint, { name: this.name, key: keyNamed(this.name) }, this.time);
  }

  get witness(): PolicyWitness {
    return parsePolicy([this.setting]).witnesses[0] as PolicyWitness;
  }

  /** As in WITNESSES. */
  get setting(): string {
    return `${formatVerifierKey(toVerifierKey(this.name, keyNamed(this.name), 'cosignature'))} ${this.url}`;
  }

  async start(): Promise<this> {
    const server = createServer(async (request, response) => {
      const submitted = parseConsistencyProof(await text(request));
      this.submitted.push(submitted);
      this.respond(submitted, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return this;
  }
}

/** Responds with 409 and the size that is known, as a witness that has cosigned that size. */
export const conflict = (size: number, response: ServerResponse): void =>
  void response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(`${size}\n`);
