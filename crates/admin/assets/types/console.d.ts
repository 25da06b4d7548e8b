// Types that the scripts of the console share. Calls of the API are typed by its own document, in admin-api.d.ts.

/** What can be put into an element. Empty content, `true` and `false` are skipped. */
type Content = Node | string | number | boolean | null | undefined | readonly Content[];

/** Attributes of an element, and listeners under `onclick` and the like. */
type Props = Record<string, any>;

/** The values of a form, by the names of its fields. */
type Values = Record<string, any>;

/** A path of the API that has a method. */
type PathOf<Method extends string> = { [Call in keyof Api.Calls]: Call extends `${Method} ${infer Path}` ? Path : never }[keyof Api.Calls];

type CallOf<Method extends string, Path extends string> = `${Method} ${Path}` extends infer Call extends keyof Api.Calls ? Api.Calls[Call] : never;

/** What fills the path and the query of a call. It can be left out if the path has no parameter. */
type PlaceOf<Call> = (Call extends { path: infer Path } ? { path: Path } : {}) & (Call extends { query: infer Query } ? { query?: Query } : {});

/** `quiet`: does not ask to log in again. */
type Options<Call, More> = Call extends { path: unknown } ? [options: PlaceOf<Call> & More] : [options?: PlaceOf<Call> & More];
type Sending = { signal?: AbortSignal; headers?: Record<string, string>; quiet?: boolean };

type BodyOf<Call> = Call extends { body: infer Body } ? Body : {};
type AnswerOf<Call> = Call extends { answer: infer Answer } ? Answer : never;

type Read = <Path extends PathOf<'GET'>>(path: Path, ...options: Options<CallOf<'GET', Path>, Sending>) => Promise<AnswerOf<CallOf<'GET', Path>>>;
type Change<Method extends string> = <Path extends PathOf<Method>>(path: Path, body?: BodyOf<CallOf<Method, Path>>,
  ...options: Options<CallOf<Method, Path>, Sending>) => Promise<AnswerOf<CallOf<Method, Path>>>;
type Address = <Path extends PathOf<'GET'>>(path: Path, ...place: Options<CallOf<'GET', Path>, {}>) => string;

/** What a page gets. `nav`: the entry of the navigation that is marked. */
interface PageInput {
  params: Record<string, string>;
  query: URLSearchParams;
  signal: AbortSignal;
  nav: string;
  refresh: () => void;
}

type Page = (input: PageInput) => Promise<Content>;

/** How something is: its colour and its mark. */
type Tone = 'good' | 'warn' | 'bad' | 'none' | 'busy';

/** What a dialog asks. `confirm`: the text of its button. `say`: shows a sentence while `act` works. */
interface Question<Result> {
  title: string;
  intro: Content;
  fields?: Content[];
  confirm: string;
  danger?: boolean;
  wide?: boolean;
  act: (values: Values, say: (text: string) => void) => Promise<Result>;
}
