// Makes the types that the scripts of the console are checked with from the OpenAPI document of the admin API.
// A keyword of JSON Schema that could change a type and is not known here is an error.

const IGNORED = new Set(['description', 'format', 'default', 'minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'pattern']);
const KNOWN = new Set(['$ref', 'type', 'enum', 'const', 'anyOf', 'oneOf', 'items', 'properties', 'required', 'additionalProperties']);

const HEAD = `// The admin API. Made from its OpenAPI document by e2e/api-types.mjs: \`npm run types\` in e2e/ makes it anew.

declare namespace Api {
`;

const literal = (text) => JSON.stringify(text).replaceAll('"', "'");
const name = (text) => (/^\w+$/.test(text) ? text : literal(text));
const union = (types) => [...new Set(types)].join(' | ');

function object({ properties = {}, required = [], additionalProperties }, indent) {
  const inner = `${indent}  `;
  const lines = Object.entries(properties).map(([key, schema]) =>
    `${inner}${name(key)}${required.includes(key) ? '' : '?'}: ${typeOf(schema, inner)};\n`);
  if (lines.length) return `{\n${lines.join('')}${indent}}`;
  return typeof additionalProperties === 'object' ? `Record<string, ${typeOf(additionalProperties, indent)}>` : '{}';
}

/** The TypeScript type of a JSON Schema. */
function typeOf(schema, indent) {
  const unknown = Object.keys(schema).filter((key) => !IGNORED.has(key) && !KNOWN.has(key));
  if (unknown.length) throw new Error(`unknown keywords: ${unknown}`);
  if (schema.$ref) return schema.$ref.split('/').at(-1) + (schema.properties ? ` & ${object(schema, indent)}` : '');
  if (schema.enum) return union(schema.enum.map(literal));
  if (schema.const !== undefined) return literal(schema.const);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return union(either.map((one) => typeOf(one, indent)));
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)));
  switch (schema.type) {
    case 'object': return object(schema, indent);
    case 'array': return schema.items.$ref ? `${typeOf(schema.items, indent)}[]` : `Array<${typeOf(schema.items, indent)}>`;
    case 'integer': case 'number': return 'number';
    case undefined: return 'any';
    default: return schema.type;
  }
}

/** What a call takes or gives: JSON, or else text or bytes. */
function contentOf({ content = {} }, raw) {
  const { 'application/json': json, ...others } = content;
  if (json) return typeOf(json.schema, '    ');
  return Object.keys(others).length ? raw : 'null';
}

function call({ parameters, requestBody, responses }) {
  const named = (place) => object({
    properties: Object.fromEntries(parameters.filter((one) => one.in === place).map((one) => [one.name, one.schema])),
    required: parameters.filter((one) => one.required).map((one) => one.name),
  }, '    ').replace(/\n */g, ' ');
  const done = Object.entries(responses).filter(([status]) => status.startsWith('2')).map(([, response]) => contentOf(response, 'Blob'));
  const has = (place) => parameters.some((one) => one.in === place);
  return [has('path') && `path: ${named('path')}`, has('query') && `query: ${named('query')}`,
    requestBody && `body: ${contentOf(requestBody, 'string | Blob')}`, `answer: ${union(done)}`].filter(Boolean).join('; ');
}

/** The content of the file with the types of a document. */
export function typesOf({ components, paths }) {
  const types = Object.entries(components.schemas).map(([key, schema]) => `  type ${key} = ${typeOf(schema, '  ')};\n`);
  const calls = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) =>
    `    '${method.toUpperCase()} ${path}': { ${call(operation)} };\n`));
  return `${HEAD}${types.join('')}\n  interface Calls {\n${calls.join('')}  }\n}\n`;
}
