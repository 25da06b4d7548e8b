// Compiled against the types that openapi-typescript makes of the document: what is wrong here or there is an error.

import type { components, paths } from './api.js';

type Body<T> = T extends { content: { 'application/json': infer B } } ? B : never;
type Batch = paths['/api/batch']['post'];
type Lookup = paths['/api/fetchPhoneNumber']['post'];

export const request: Body<NonNullable<Lookup['requestBody']>> = { profileUrl: 'https://www.linkedin.com/in/ada-quell-1a2b3c' };
export const batch: Body<NonNullable<Batch['requestBody']>> = {
  lookups: [{ operation: 'fetchPhoneNumber', profileUrl: request.profileUrl, reference: 'row 7' }],
};
// @ts-expect-error: there is no such operation
export const wrong: Body<NonNullable<Batch['requestBody']>> = { lookups: [{ operation: 'fetchAddress', profileUrl: '' }] };

export function phone(found: Body<Lookup['responses']['200']>): string {
  return found.phoneNumber;
}

export function code(error: Body<Lookup['responses']['404']>): components['schemas']['Error']['status'] {
  return error.status;
}

export function statuses(answer: Body<Batch['responses']['200']>): number[] {
  return answer.results.map((result) => result.status);
}
