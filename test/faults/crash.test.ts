import { test } from 'vitest';
import { killUnderLoad } from '../support/crash.ts';

test('a server killed twenty times under load keeps and lists every acknowledged plant once', () =>
  killUnderLoad(20));
