// @ts-check
// The operations of the journal, in words.

/** @type {Array<[string, string]>} */
export const OPERATIONS = [
  ['phone', 'Phone number looked up'],
  ['email', 'E-mail address looked up'],
  ['subject search', 'Person searched for'],
  ['subject', 'Access report made'],
  ['suppress', 'Opted out'],
  ['unsuppress', 'Opt-out taken back'],
  ['erase', 'Person erased'],
  ['put', 'Detail corrected or added'],
  ['remove', 'Detail removed'],
  ['import', 'File imported'],
  ['import preview', 'First rows of a file seen'],
  ['import check', 'File checked'],
  ['import rejects', 'Rejected rows downloaded'],
  ['imports undo', 'Import undone'],
  ['export', 'Everything exported'],
  ['export download', 'Export downloaded'],
  ['sweep', 'Old details removed'],
  ['token create', 'Token created'],
  ['token update', 'Token changed'],
  ['token rotate', 'Token replaced'],
  ['token revoke', 'Token revoked'],
  ['log in', 'Logged in'],
  ['user create', 'User added'],
  ['user role', 'Role changed'],
  ['user password', 'Password reset'],
  ['user reset-totp', 'Second factor removed'],
  ['user disable', 'User disabled'],
  ['user enable', 'User enabled'],
  ['change password', 'Own password changed'],
  ['admin-token create', 'Admin token created'],
  ['admin-token revoke', 'Admin token revoked'],
  ['admin-token take-over', 'Admin token taken over'],
  ['backup', 'Backup made'],
  ['restore', 'Backup restored'],
  ['migrate', 'Moved into a database'],
  ['configuration', 'Settings changed'],
  ['audit accept-loss', 'Loss of lines accepted'],
  ['node forget', 'Node forgotten'],
  ['node reconcile', 'State put back by a node'],
];

const WORDS = new Map(OPERATIONS);

/** @param {string} operation */
export const operationName = (operation) => WORDS.get(operation) ?? operation;
