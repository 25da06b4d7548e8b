// The admin API. Made from its OpenAPI document by e2e/api-types.mjs: `npm run types` in e2e/ makes it anew.

declare namespace Api {
  type SessionShown = {
    user: SessionUser;
    permissions: Array<string>;
    isOnRecord: boolean;
    csrfToken: string;
    endsAt: string;
    idleEndsAt: string;
  };
  type SessionUser = {
    name: string;
    role: string;
    hasTotp: boolean;
    mustChangePassword: boolean;
  };
  type Login = {
    name: string;
    password: string;
    code?: string | null;
  };
  type Link = {
    link: string;
  };
  type Me = {
    name: string;
    role: string;
    hasTotp: boolean;
    mustChangePassword: boolean;
    sessionEndsAt: string;
    lastLoginAt?: string | null;
  };
  type PasswordChange = {
    old: string;
    new: string;
  };
  type TotpBegun = {
    secret: string;
    uri: string;
  };
  type TotpConfirmation = {
    password: string;
    code: string;
  };
  type Password = {
    password: string;
  };
  type UserList = {
    users: UserShown[];
  };
  type UserShown = {
    name: string;
    role: string;
    createdAt: string;
    disabledAt?: string | null;
    hasTotp: boolean;
    lastLoginAt?: string | null;
  };
  type UserWithPassword = {
    name: string;
    role: string;
    createdAt: string;
    disabledAt?: string | null;
    hasTotp: boolean;
    lastLoginAt?: string | null;
    password: string;
  };
  type UserToCreate = {
    name: string;
    role: 'admin' | 'operator' | 'privacy' | 'auditor';
  };
  type RoleChange = {
    role: 'admin' | 'operator' | 'privacy' | 'auditor';
  };
  type AdminTokenList = {
    adminTokens: AdminTokenShown[];
  };
  type AdminTokenShown = {
    id: string;
    name: string;
    role: string;
    state: string;
    createdAt: string;
    expiresAt?: string | null;
    owner?: string | null;
    lastUsedAt?: string | null;
  };
  type AdminTokenWithSecret = {
    id: string;
    name: string;
    role: string;
    state: string;
    createdAt: string;
    expiresAt?: string | null;
    owner?: string | null;
    lastUsedAt?: string | null;
    token: string;
  };
  type TokenToCreate = {
    name: string;
    role: 'admin' | 'operator' | 'privacy' | 'auditor';
    expires?: string | null;
  };
  type TokenList = {
    tokens: TokenShown[];
  };
  type TokenShown = {
    id: string;
    name: string;
    rotatedFrom?: string | null;
    scopes: ScopeName[];
    sandbox: boolean;
    createdAt: string;
    expiresAt?: string | null;
    revokedAt?: string | null;
    lastUsedAt?: string | null;
    hits: number;
    rate?: string | null;
    burst?: number | null;
    quota?: string | null;
    quotaUsed?: number | null;
    state: TokenState;
  };
  type ScopeName = 'phone' | 'email' | 'mcp';
  type TokenState = 'live' | 'expired' | 'revoked';
  type TokenWithSecret = {
    id: string;
    name: string;
    rotatedFrom?: string | null;
    scopes: ScopeName[];
    sandbox: boolean;
    createdAt: string;
    expiresAt?: string | null;
    revokedAt?: string | null;
    lastUsedAt?: string | null;
    hits: number;
    rate?: string | null;
    burst?: number | null;
    quota?: string | null;
    quotaUsed?: number | null;
    state: TokenState;
    inForce: boolean;
    isOnRecord: boolean;
    token: string;
  };
  type LookupTokenToCreate = {
    name: string;
    scopes?: ScopeName[] | null;
    sandbox?: boolean;
    expires?: string | null;
    rate?: string | null;
    burst?: number | null;
    quota?: string | null;
  };
  type TokenChanged = {
    id: string;
    name: string;
    rotatedFrom?: string | null;
    scopes: ScopeName[];
    sandbox: boolean;
    createdAt: string;
    expiresAt?: string | null;
    revokedAt?: string | null;
    lastUsedAt?: string | null;
    hits: number;
    rate?: string | null;
    burst?: number | null;
    quota?: string | null;
    quotaUsed?: number | null;
    state: TokenState;
    inForce: boolean;
    isOnRecord: boolean;
  };
  type TokenChange = {
    scopes?: ScopeName[] | null;
    expires?: string | null;
    rate?: string | null;
    burst?: number | null;
    quota?: string | null;
  };
  type Rotation = {
    overlap?: string | null;
  };
  type TokenUsage = {
    days: DayShown[];
  };
  type DayShown = {
    day: string;
    hits: number;
    misses: number;
    refused: number;
  };
  type FoundShown = {
    subject: SubjectShown;
    suppression: SuppressionShown;
    profiles: Array<string>;
    held: HeldShown[];
    recipients: RecipientShown[];
    requestsWithoutResult: number;
    disclosuresKnownSince?: string | null;
    indexComparedAt?: string | null;
    shared: SharedShown[];
    isShortened: boolean;
  };
  type SubjectShown = {
    kind: SubjectKind;
    text: string;
  };
  type SubjectKind = 'profile' | 'phone' | 'email';
  type SuppressionShown = {
    isSuppressed: boolean;
    since?: string | null;
    isOfTheValueOnly: boolean;
  };
  type HeldShown = {
    profileUrl: string;
    kind: KindName;
    value: string;
    label: LabelName;
    source: string;
    confidence: number;
    observedAt?: string | null;
    basis?: string | null;
    expiresAt?: string | null;
    isExpired: boolean;
    isSuppressed: boolean;
    keptForUndoUntil?: string | null;
  };
  type KindName = 'phone' | 'email';
  type LabelName = 'personal' | 'work';
  type RecipientShown = {
    token: string;
    tokenIds: Array<string>;
    times: number;
    firstAt: string;
    lastAt: string;
    details: ReceivedShown[];
  };
  type ReceivedShown = {
    operation: KindName;
    value?: string | null;
    isValueRecorded: boolean;
    times: number;
    firstAt: string;
    lastAt: string;
  };
  type SharedShown = {
    profileUrl: string;
    kind: KindName;
  };
  type SearchAsked = {
    q: Whom;
    ticket?: string | null;
  };
  type Whom = string;
  type PeopleFound = {
    profiles: Array<string>;
    isComplete: boolean;
  };
  type FindAsked = {
    name: string;
    ticket?: string | null;
  };
  type ReportShown = {
    subject: SubjectShown;
    suppression: SuppressionShown;
    profiles: Array<string>;
    held: HeldShown[];
    recipients: RecipientShown[];
    requestsWithoutResult: number;
    disclosuresKnownSince?: string | null;
    indexComparedAt?: string | null;
    generatedAt: string;
    isAboutTheValueOnly: boolean;
    disclosuresAreOf: DisclosuresName;
    disclosures: DisclosureShown[];
  };
  type DisclosuresName = 'profile' | 'profilesThatHoldItNow' | 'value' | 'unknown';
  type DisclosureShown = {
    time: string;
    profileUrl: string;
    operation: KindName;
    token: string;
    tokenId: string;
    requestId: string;
    value?: string | null;
    isValueRecorded: boolean;
  };
  type ReportAsked = {
    q: Whom;
    ticket?: string | null;
    all?: boolean;
  };
  type Settled = {
    changed: number;
    inForce: boolean;
    isOnRecord: boolean;
  };
  type JobShown = {
    id: string;
    kind: Kind;
    state: State;
    startedAt: string;
    endedAt?: string | null;
    actor: string;
    input: any;
    progress: Done;
    result?: any;
    code?: string | null;
    message?: string | null;
    hasRejects: boolean;
    hasFile: boolean;
  };
  type Kind = 'import' | 'undo' | 'export' | 'verify' | 'proof' | 'sweep' | 'optOuts' | 'erase' | 'correct' | 'remove';
  type State = 'running' | 'done' | 'failed' | 'cancelled';
  type Done = {
    done: number;
    total?: number | null;
    unit: string;
    phase: string;
  };
  type Correction = {
    profileUrl: string;
    kind: KindName;
    value: string;
    label?: LabelName;
    replaces?: Replaced | null;
    ticket?: string | null;
  };
  type Replaced = {
    value: string;
    source: string;
  };
  type Removal = {
    profileUrl: string;
    kind: KindName;
    value: string;
    source?: string | null;
    ticket?: string | null;
  };
  type ErasureShown = {
    profiles: ErasedShown[];
    sharedWith: SharedShown[];
    inForce: boolean;
    isOnRecord: boolean;
  };
  type ErasedShown = {
    profileUrl: string;
    details: number;
  };
  type Erasure = {
    q: Whom;
    values?: boolean;
    dryRun?: boolean;
    confirmed?: number | null;
    ticket?: string | null;
  };
  type OptOutShown = {
    changed: number;
    inForce: boolean;
    isOnRecord: boolean;
    already: number;
    onFile?: boolean | null;
    holders: HolderShown[];
  };
  type HolderShown = {
    profileUrl: string;
    stillDisclosed: number;
  };
  type OptOutAsked = {
    q: Whom;
    person?: boolean;
    confirmed?: number | null;
    ticket?: string | null;
  };
  type Withdrawal = {
    q: Whom;
    ticket?: string | null;
  };
  type ListShown = {
    named: number;
    columns: Array<string>;
    otherSheets: Array<string>;
    rejected: RejectedLine[];
    moreRejected: number;
  };
  type RejectedLine = {
    line: number;
    reason: string;
  };
  type JobList = {
    jobs: JobShown[];
  };
  type EventPage = {
    events: EventShown[];
    next?: string | null;
  };
  type EventShown = RequestShown & {
    kind: 'request';
  } | ActionShown & {
    kind: 'admin';
  };
  type RequestShown = {
    seq: number;
    time: string;
    requestId: string;
    givenIdDigest?: string | null;
    token: string;
    tokenName?: string | null;
    operation: string;
    via?: string | null;
    outcome: string;
    reason?: string | null;
    profileDigest?: string | null;
    valueDigest?: string | null;
    placeInBatch?: number | null;
    repeat?: boolean | null;
    count?: number | null;
    node: string;
  };
  type ActionShown = {
    seq: number;
    time: string;
    requestId?: string | null;
    token?: string | null;
    actor: string;
    via: string;
    operation: string;
    outcome: string;
    counts: Record<string, number>;
    subjects: Array<string>;
    ticket?: string | null;
    what?: string | null;
    node: string;
  };
  type Format = 'json' | 'csv';
  type RecipientList = {
    recipients: RecipientShown2[];
  };
  type RecipientShown2 = {
    token: string;
    tokenName?: string | null;
    requests: number;
    hits: number;
    misses: number;
    refused: number;
    firstAt: string;
    lastAt: string;
  };
  type RootsShown = {
    roots: RootShown[];
  };
  type RootShown = {
    node: string;
    key: string;
    isCurrent: boolean;
  };
  type HeadsShown = {
    heads: HeadShown[];
  };
  type HeadShown = {
    node: string;
    head: string;
    line: number;
    time: string;
  };
  type Verify = {
    roots?: Array<string>;
    head?: string | null;
  };
  type Proof = {
    since: string;
    until: string;
    node?: string | null;
  };
  type UsageShown = {
    days: DayShown2[];
  } | {
    tokens: TokenShown2[];
  };
  type DayShown2 = {
    day: string;
    hits: number;
    misses: number;
    refused: number;
  };
  type TokenShown2 = {
    token: string;
    tokenName?: string | null;
    hits: number;
    misses: number;
    refused: number;
  };
  type By = 'day' | 'token';
  type RetentionShown = {
    sources: SourceShown[];
    undo?: string | null;
    auditKeep?: string | null;
    sweepEvery: string;
  };
  type SourceShown = {
    source: string;
    maxAge?: string | null;
    details: number;
    due: number;
    next?: NextShown | null;
  };
  type NextShown = {
    details: number;
    by: string;
  };
  type Sweep = {
    dryRun?: boolean;
  };
  type OverviewShown = {
    lookups: DayShown2[];
    latency?: LookupTimes | null;
    held: HeldShown2;
    suppressions: number;
    tokensEnding: EndingShown[];
    journal: JournalShown;
    lastImport?: ImportShown | null;
    lastBackup?: BackupShown | null;
    nodes: NodeAtAGlance[];
    findings: FindingShown[];
  };
  type LookupTimes = {
    p50Micros: number;
    p99Micros: number;
  };
  type HeldShown2 = {
    profiles: number;
    details: HeldOfSource[];
  };
  type HeldOfSource = {
    source: string;
    kind: string;
    count: number;
  };
  type EndingShown = {
    id: string;
    name: string;
    endsAt?: string | null;
  };
  type JournalShown = {
    state: string;
    comparedAt?: string | null;
    lines: number;
    message?: string | null;
  };
  type ImportShown = {
    id: number;
    importedAt: string;
    source: string;
    rows: number;
  };
  type BackupShown = {
    madeAt: string;
  };
  type NodeAtAGlance = {
    name: string;
    state: string;
    behind: number;
  };
  type FindingShown = {
    check: string;
    verdict: Verdict;
    message: string;
    advice?: string | null;
  };
  type Verdict = 'ok' | 'warn' | 'fail';
  type NodeList = {
    nodes: NodeShown[];
  };
  type NodeShown = {
    id: string;
    name: string;
    version: string;
    state: string;
    lease: string;
    behind: number;
    seenAt: string;
    joinedAt: string;
  };
  type HealthShown = {
    version: string;
    findings: FindingShown[];
  };
  type UploadShown = {
    id: string;
    name: string;
    bytes: number;
    format: string;
    encoding?: string | null;
    delimiter?: string | null;
    sheet?: string | null;
    sheets: Array<string>;
    columns: ColumnShown[];
    suggestedMapping: Record<string, string>;
  };
  type ColumnShown = {
    name: string;
    field?: string | null;
    suggested?: string | null;
    samples: Array<string>;
  };
  type UploadList = {
    uploads: ListedUpload[];
  };
  type ListedUpload = {
    id: string;
    name: string;
    bytes: number;
    sentAt: string;
    deletedAt: string;
  };
  type Preview = {
    rows: RowShown[];
    otherCountries: Array<string>;
  };
  type RowShown = {
    line: number;
    values: Record<string, string>;
    stored: Record<string, string>;
    verdict: Verdict2;
    reasons: ReasonShown[];
  };
  type Verdict2 = 'loaded' | 'loaded in part' | 'rejected' | 'opted out';
  type ReasonShown = {
    column: string;
    reason: string;
  };
  type ToPreview = {
    mapping?: Record<string, Headers>;
    source?: string | null;
    region?: string | null;
    dateFormat?: string | null;
    requireBasis?: boolean;
    encoding?: string | null;
    sheet?: string | null;
    replaceSource?: boolean;
  };
  type Headers = string | Array<string>;
  type ImportList = {
    imports: ShownImport[];
  };
  type ShownImport = {
    id: number;
    importedAt: string;
    source: string;
    actor?: string | null;
    files: Array<string>;
    rows: number;
    rejected: number;
    suppressed: number;
    profilesNew: number;
    profilesChanged: number;
    detailsNew: number;
    detailsChanged: number;
    detailsUnchanged: number;
    detailsWithdrawn: number;
    undoneAt?: string | null;
    undoUntil?: string | null;
  };
  type SourceList = {
    sources: KnownSource[];
  };
  type KnownSource = {
    name: string;
    reading?: RememberedReading | null;
  };
  type RememberedReading = {
    mapping?: Record<string, Array<string>>;
    region?: string | null;
    dateFormat?: string | null;
    requireBasis?: boolean;
  };
  type ToImport = {
    upload: string;
    mapping?: Record<string, Headers>;
    source?: string | null;
    region?: string | null;
    dateFormat?: string | null;
    requireBasis?: boolean;
    encoding?: string | null;
    sheet?: string | null;
    replaceSource?: boolean;
    maxRejects?: string | null;
    maxWithdrawn?: string | null;
    remember?: boolean;
    dryRun?: boolean;
    fileName?: string | null;
  };
  type ToExport = {
    format: ExportFormat;
    source?: string | null;
    ticket: string;
  };
  type ExportFormat = 'csv' | 'jsonl';
  type Error = {
    status: string;
    message: string;
    count?: number;
  };

  interface Calls {
    'POST /session': { body: Login; answer: SessionShown };
    'GET /session': { answer: SessionShown };
    'DELETE /session': { answer: null };
    'POST /session/link': { body: Link; answer: SessionShown };
    'GET /me': { answer: Me };
    'POST /me/password': { body: PasswordChange; answer: null };
    'POST /me/totp': { answer: TotpBegun };
    'DELETE /me/totp': { body: Password; answer: null };
    'POST /me/totp/confirm': { body: TotpConfirmation; answer: null };
    'GET /users': { answer: UserList };
    'POST /users': { body: UserToCreate; answer: UserWithPassword };
    'POST /users/{name}/password': { path: { name: string; }; answer: UserWithPassword };
    'POST /users/{name}/role': { path: { name: string; }; body: RoleChange; answer: UserShown };
    'POST /users/{name}/disable': { path: { name: string; }; answer: UserShown };
    'POST /users/{name}/enable': { path: { name: string; }; answer: UserShown };
    'POST /users/{name}/reset-totp': { path: { name: string; }; answer: UserShown };
    'GET /admin-tokens': { answer: AdminTokenList };
    'POST /admin-tokens': { body: TokenToCreate; answer: AdminTokenWithSecret };
    'POST /admin-tokens/{id}/revoke': { path: { id: string; }; answer: AdminTokenShown };
    'POST /admin-tokens/{id}/take-over': { path: { id: string; }; answer: AdminTokenShown };
    'GET /tokens': { answer: TokenList };
    'POST /tokens': { body: LookupTokenToCreate; answer: TokenWithSecret };
    'PATCH /tokens/{id}': { path: { id: string; }; body: TokenChange; answer: TokenChanged };
    'POST /tokens/{id}/rotate': { path: { id: string; }; body: Rotation; answer: TokenWithSecret };
    'POST /tokens/{id}/revoke': { path: { id: string; }; answer: TokenChanged };
    'GET /tokens/{id}/usage': { path: { id: string; }; query: { days?: number | null; }; answer: TokenUsage };
    'POST /people/search': { body: SearchAsked; answer: FoundShown };
    'POST /people/find': { body: FindAsked; answer: PeopleFound };
    'POST /people/report': { body: ReportAsked; answer: ReportShown };
    'POST /people/correct': { body: Correction; answer: Settled | JobShown };
    'POST /people/remove': { body: Removal; answer: Settled | JobShown };
    'POST /people/erase': { body: Erasure; answer: ErasureShown | JobShown };
    'POST /people/opt-out': { body: OptOutAsked; answer: OptOutShown };
    'POST /opt-outs/withdraw': { body: Withdrawal; answer: Settled };
    'POST /opt-outs/list': { query: { person?: boolean; ticket?: string | null; }; body: string | Blob; answer: JobShown };
    'POST /opt-outs/list/check': { body: string | Blob; answer: ListShown };
    'GET /jobs': { answer: JobList };
    'GET /jobs/{id}': { path: { id: string; }; answer: JobShown };
    'DELETE /jobs/{id}': { path: { id: string; }; answer: null };
    'POST /jobs/{id}/cancel': { path: { id: string; }; answer: JobShown };
    'GET /jobs/{id}/file': { path: { id: string; }; answer: Blob };
    'GET /jobs/{id}/rejects': { path: { id: string; }; answer: Blob };
    'GET /audit': { query: { since?: string | null; until?: string | null; token?: string | null; outcome?: string | null; operation?: string | null; actor?: string | null; request?: string | null; limit?: number | null; before?: string | null; format?: Format; }; answer: EventPage };
    'GET /audit/summary': { query: { since?: string | null; until?: string | null; }; answer: RecipientList };
    'GET /audit/root': { answer: RootsShown };
    'GET /audit/head': { answer: HeadsShown };
    'POST /audit/verify': { body: Verify; answer: JobShown };
    'POST /audit/proof': { body: Proof; answer: JobShown };
    'GET /usage': { query: { since?: string | null; until?: string | null; by?: By; format?: Format; }; answer: UsageShown };
    'GET /retention': { answer: RetentionShown };
    'POST /retention/sweep': { body: Sweep; answer: JobShown };
    'GET /overview': { answer: OverviewShown };
    'GET /nodes': { answer: NodeList };
    'GET /health': { answer: HealthShown };
    'POST /uploads': { body: string | Blob; answer: UploadShown };
    'GET /uploads': { answer: UploadList };
    'GET /uploads/{id}': { path: { id: string; }; query: { sheet?: string | null; encoding?: string | null; }; answer: UploadShown };
    'DELETE /uploads/{id}': { path: { id: string; }; answer: null };
    'POST /uploads/{id}/preview': { path: { id: string; }; body: ToPreview; answer: Preview };
    'GET /imports': { answer: ImportList };
    'POST /imports': { body: ToImport; answer: JobShown };
    'GET /sources': { answer: SourceList };
    'POST /imports/{id}/undo': { path: { id: string; }; answer: JobShown };
    'POST /exports': { body: ToExport; answer: JobShown };
  }
}
