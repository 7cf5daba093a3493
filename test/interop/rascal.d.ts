/** The part of rascal that is used here; it comes without types. */
declare module "rascal" {
  interface Publication {
    on(event: "success" | "error", listener: (detail: unknown) => void): void;
  }
  interface Broker {
    publish(name: string, message: unknown): Promise<Publication>;
    shutdown(): Promise<void>;
  }
  const rascal: {
    readonly BrokerAsPromised: { create(config: unknown): Promise<Broker> };
    withDefaultConfig(config: unknown): unknown;
  };
  // oxlint-disable-next-line import/no-default-export -- rascal is CommonJS
  export default rascal;
}
