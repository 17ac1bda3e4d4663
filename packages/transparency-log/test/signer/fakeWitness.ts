import { createServer, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { listenOn } from '@event-sourced/node/testing';
import { onTestFinished } from 'vitest';
import { MerkleTree } from '../../../tlog/src/merkle/merkleTree.ts';
import { verifyConsistency } from '../../../tlog/src/merkle/proofs.ts';
import type { TreeHead } from '../../../tlog/src/merkle/treeHead.ts';
import { readUnverifiedCheckpoint } from '../../../tlog/src/notes/checkpoint.ts';
import { parseConsistencyProof } from '../../../tlog/src/notes/proof.ts';
import { type PolicyWitness, parsePolicy } from '../../../tlog/src/witness/policy.ts';
import { keyNamed } from '../../../tlog/test/notes/keys.ts';
import { cosign, witnessKey } from '../../../tlog/test/witness/cosign.ts';

type Submitted = ReturnType<typeof parseConsistencyProof>;

/** A witness of one log (https://c2sp.org/tlog-witness), which cosigns one history, unless `respond` is replaced. */
export class FakeWitness {
  readonly name: string;
  /** The requests that it got. */
  readonly submitted: Submitted[] = [];
  /** The time of its cosignatures, in seconds since 1970. */
  time = Math.floor(Date.now() / 1_000);
  url = '';
  #latest: TreeHead = { size: 0, root: new MerkleTree().root() };
  #server: Server | undefined;

  constructor(name: string) {
    this.name = name;
  }

  respond = (submitted: Submitted, response: ServerResponse): void => {
    const { size, root } = readUnverifiedCheckpoint(submitted.checkpoint);
    if (submitted.from !== this.#latest.size) conflict(this.#latest.size, response);
    else if (!verifyConsistency(this.#latest, { size, root }, submitted.path)) response.writeHead(422).end();
    else {
      this.#latest = { size, root };
      response.end(this.sign(submitted));
    }
  };

  sign({ checkpoint }: Submitted): string {
    return cosign(checkpoint, { name: this.name, key: keyNamed(this.name) }, this.time);
  }

  get witness(): PolicyWitness {
    return parsePolicy([this.setting]).witnesses[0] as PolicyWitness;
  }

  /** As in WITNESSES. */
  get setting(): string {
    return `${witnessKey(this.name)} ${this.url}`;
  }

  /** Listens, again at the same port, until the end of the test. */
  async start(): Promise<this> {
    const server = createServer(async (request, response) => {
      const submitted = parseConsistencyProof(await text(request));
      this.submitted.push(submitted);
      this.respond(submitted, response);
    });
    this.#server = server;
    const port = this.url === '' ? 0 : Number(new URL(this.url).port);
    this.url = `http://127.0.0.1:${await listenOn(server, port)}`;
    onTestFinished(() => this.stop());
    return this;
  }

  stop(): void {
    this.#server?.close();
    this.#server?.closeAllConnections();
  }
}

/** Responds with 409 and the size that is known, as a witness that has cosigned that size. */
export const conflict = (size: number, response: ServerResponse): void =>
  void response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(`${size}\n`);
