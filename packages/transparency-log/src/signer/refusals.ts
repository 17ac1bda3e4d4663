import type { Logger } from '@event-sourced/event-log';
import { formatTreeHead } from '../merkle/treeHead.ts';
import {
  CheckpointFileUnusable,
  type CheckpointSigner,
  LogContradictsCheckpoint,
} from './checkpointSigner.ts';

export const CHECKPOINT_REFUSALS = ['log_contradicts', 'file_unusable'] as const;
/** Why nothing is signed. */
export type CheckpointRefusal = (typeof CHECKPOINT_REFUSALS)[number];

type Context = {
  signer: Pick<CheckpointSigner, 'file'>;
  logger: Pick<Logger, 'info' | 'error'>;
  /** Called when nothing is signed any more, for this reason; without one, when checkpoints are signed again. */
  onRefusal: (refusal: CheckpointRefusal | undefined) => void;
};

/** Reports once why nothing is signed, and once that checkpoints are signed again. */
export class Refusals {
  /** Why nothing is signed; undefined while checkpoints are signed. */
  current: LogContradictsCheckpoint | CheckpointFileUnusable | undefined;
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Reports an error of the signer; ignores other errors. */
  report(error: unknown): void {
    const { signer, logger, onRefusal } = this.#context;
    if (!isRefusal(error) || error.name === this.current?.name) return;
    this.current = error;
    if (error instanceof LogContradictsCheckpoint) {
      onRefusal('log_contradicts');
      const { signed, head } = error;
      logger.error(
        { signed: formatTreeHead(signed), log: formatTreeHead(head), file: signer.file },
        'the log contradicts its last signed checkpoint; nothing is signed until the log is restored, or LOG_KEY_FILE and LOG_ORIGIN are changed',
      );
    } else {
      onRefusal('file_unusable');
      logger.error(
        { reason: error.message },
        'the signed checkpoint cannot be read or saved; nothing is signed',
      );
    }
  }

  /** A checkpoint was signed. */
  end(): void {
    if (!this.current) return;
    this.current = undefined;
    this.#context.onRefusal(undefined);
    this.#context.logger.info('checkpoints are signed again');
  }
}

export const isRefusal = (error: unknown): error is LogContradictsCheckpoint | CheckpointFileUnusable =>
  error instanceof LogContradictsCheckpoint || error instanceof CheckpointFileUnusable;
