/**
 * The seam to the driver that hears notifications. Waybill's statements run on the application's
 * data layer; hearing needs a connection that is kept, which only a driver can give.
 */

/** What is to be heard. */
export interface ListenRequest {
  /** Name of the channel. */
  readonly channel: string;
  /** Statement that listens on it; it may run again on the same connection. */
  readonly statement: string;
  /** To be called with the payload of every notification. Never throws. */
  readonly heard: (payload: string) => void;
}

/** A connection that hears. */
export interface Listening {
  /** Resolves, never rejects, once notifications may have been missed: the connection has ended. */
  readonly ended: Promise<void>;
  /** Resolves where the server answers on this connection. */
  ping(): Promise<void>;
  /** Ends it within two seconds, whatever the server does. Never rejects. */
  close(): Promise<void>;
}

/**
 * Hears notifications on a connection of its own. Made by `pgListener` or `postgresJsListener`; one
 * connection is open at a time, while jobs are watched.
 */
export interface JobListener {
  /** Opens a connection that listens; rejects where there is none to be had. */
  listen(request: ListenRequest): Promise<Listening>;
}
