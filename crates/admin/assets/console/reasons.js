// @ts-check
// Why a value of a file is rejected, in words.

/** @type {Record<string, string>} */
const WORDS = {
  missing: 'missing',
  no_detail: 'neither a phone number nor an e-mail address',
  spreadsheet_notation: 'changed by a spreadsheet; format the column as text and export again',
  invalid_phone: 'no such phone number can exist',
  phone_letters: 'letters in the number',
  phone_extension: 'a number with an extension',
  phone_several: 'more than one number in the field',
  phone_region_needed: 'no + and no country; choose the country of the numbers',
  unknown_region: 'no such country',
  invalid_email: 'not an e-mail address',
  invalid_email_domain: 'the domain of the address cannot exist',
  email_not_bare: 'more than the plain address, such as a name',
  email_too_long: 'the address is too long',
  unknown_label: 'the label is neither personal nor work',
  invalid_confidence: 'not a number from 0 to 100',
  invalid_date: 'not a date',
  invalid_basis: 'not a lawful basis that can be stored',
  invalid_source: 'not a name for a source',
  date_format_needed: 'day and month could be confused; choose how dates are written',
  basis_missing: 'no lawful basis',
  not_utf8: 'not valid in the encoding of the file; choose another encoding',
  too_many_fields: 'more fields than the header',
  not_json: 'not JSON',
  not_object: 'not a JSON object',
  duplicate_field: 'the same field twice',
  not_text: 'not text',
  not_list: 'not a list',
  too_many_details: 'more than 1,000 details in one line',
  too_many_values: 'more than 20 numbers or 20 addresses of one profile from one source, with those on file',
  // Of profile URLs.
  empty: 'empty',
  too_long: 'too long',
  control_char: 'an invisible character inside; copy the address again',
  not_a_url: 'not a web address',
  bad_scheme: 'neither http nor https',
  userinfo: 'a user name or password before the host',
  bad_port: 'a port of its own',
  bad_host: 'not a network that is served',
  unsupported_subdomain: 'not a part of the network with public profiles',
  short_link: 'a short link; open it and use the address it leads to',
  empty_segment: 'two slashes in a row',
  bad_encoding: 'encoded wrongly, or twice',
  path_traversal: '. or .. in the path',
  bad_legacy: 'an old address without its three groups of digits',
  not_person: 'not the profile of a person',
  internal_id: 'an id that only the network knows; use the public address',
  no_slug: 'ends before it names a person',
  bad_slug: 'no such name can exist in an address',
  reserved_slug: 'a word of the network, not a person',
};

/** @type {Record<string, string>} */
const WARNINGS = {
  country_code_without_plus: 'a number without + begins with the country code; it was loaded',
  other_country: 'Numbers without + are probably of another country than the one that was chosen',
};

/**
 * A reason in words; its code if there are none.
 * @param {string} code
 */
export const reasonText = (code) => WORDS[code] ?? code.replaceAll('_', ' ');

/** @param {string} code */
export const warningText = (code) => WARNINGS[code] ?? code.replaceAll('_', ' ');
