import { CloudEvent } from '@event-sourced/event-log/replay';
import type { ApiDescription } from '@event-sourced/http';
import { COMMON_ERRORS } from './errors.ts';
import { NewPlant, Plant } from './plantRoutes.ts';

/** What is not in the routes. */
export const API: ApiDescription = {
  info: {
    title: 'Plant store API',
    version: '1.0.0',
    description:
      'Create plants, and list your own. The operations of `audit` replay and check the log of all users, as [the audit page](audit) does. Every request can be repeated safely.',
    contact: { name: 'The maintainers of the plant store' },
    license: { name: 'MIT', identifier: 'MIT' },
  },
  tags: [
    { name: 'plants', description: 'The plants of the token’s user.' },
    { name: 'audit', description: 'The log of all users, for tokens with the scope audit.' },
  ],
  schemas: [Plant, NewPlant, CloudEvent],
  errors: COMMON_ERRORS,
  token:
    'A JWT of your identity provider; or, with the service’s own key, on its machine: `npx --no plant-store token alice`, and for the operations of `audit`: `npx --no plant-store token carol --scope audit`.',
};
