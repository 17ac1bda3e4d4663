interface Log {
  (fields: object, message?: string): void;
  (message: string): void;
}

/** A logger for operators, such as pino. */
export type Logger = { info: Log; warn: Log; error: Log; fatal: Log };

const ignore = (): void => {};
export const SILENT: Logger = { info: ignore, warn: ignore, error: ignore, fatal: ignore };
