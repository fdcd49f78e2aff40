/** The name of the message property that receives a result. */
import { unreadable } from './unreadable.ts';

/** The request and response of an HTTP client. If a result replaced either, the client would wait forever. */
const CLIENT = /^(?:msg\.)?(["']?)(req|res)\1(?=$|[.[])/;

/** @throws Unreadable for a property that belongs to the HTTP client */
export function parseResultProperty(text: string): string {
  const client = CLIENT.exec(text)?.[2];
  if (client === undefined) return text;
  throw unreadable(`msg.${client} belongs to the HTTP client; another name, such as result, can be used`, 'client', {
    client,
  });
}
