// The two operations in simple Fastify code on one SQLite table, to compare with.
import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import Fastify from 'fastify';

const db = new Database(process.env.PEER_DB, { readonly: true });
const tokens = new Set(db.prepare('SELECT hash FROM tokens').pluck().all());
const app = Fastify();

function canonical(url) {
  for (const prefix of ['https://www.linkedin.com/in/', 'https://linkedin.com/in/']) {
    if (typeof url === 'string' && url.startsWith(prefix)) {
      return 'linkedin.com/in/' + url.slice(prefix.length).replace(/\/+$/, '').toLowerCase();
    }
  }
  return null;
}

function lookup(path, column, field) {
  const find = db.prepare(`SELECT ${column} FROM contacts WHERE profile = ?`).pluck();
  app.post(path, (request, reply) => {
    const authorization = request.headers.authorization ?? '';
    const token = /^bearer /i.test(authorization) ? authorization.slice(7) : '';
    if (!tokens.has(createHash('sha256').update(token).digest('hex'))) {
      return reply.code(401).send({ status: 'no_authorization_found', message: 'No authorization found.' });
    }
    const key = canonical(request.body?.profileUrl);
    if (key === null) {
      const message = `Invalid profileUrl: ${request.body?.profileUrl} on ${path} api call.`;
      return reply.code(400).send({ status: 'invalid_profile_url', message });
    }
    const value = find.get(key);
    if (value == null) {
      return reply.code(404).send({ status: 'contact_not_found', message: `No ${column} found for https://${key}.` });
    }
    return reply.header('cache-control', 'no-store').send({ [field]: value, profileUrl: `https://${key}` });
  });
}

lookup('/api/fetchPhoneNumber', 'phone', 'phoneNumber');
lookup('/api/fetchPersonalEmail', 'email', 'email');
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });
