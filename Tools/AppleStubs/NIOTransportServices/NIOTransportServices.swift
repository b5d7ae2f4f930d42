import Dispatch
import NIOCore

@available(OSX 10.14, iOS 12.0, tvOS 12.0, watchOS 6.0, *)
public final class NIOTSEventLoopGroup: EventLoopGroup {
    public convenience init(loopCount: Int = 1, defaultQoS: DispatchQoS = .default) { fatalError() }

    public func next() -> EventLoop { fatalError() }

    @preconcurrency
    public func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable (Error?) -> Void) {}

    public func makeIterator() -> EventLoopIterator { fatalError() }
}

@available(OSX 10.14, iOS 12.0, tvOS 12.0, watchOS 6.0, *)
public final class NIOTSConnectionBootstrap {
    public convenience init(group: EventLoopGroup) { fatalError() }

    public convenience init(group: NIOTSEventLoopGroup) { fatalError() }

    @preconcurrency
    public func channelInitializer(_ handler: @escaping @Sendable (Channel) -> EventLoopFuture<Void>) -> Self { self }

    public func channelOption<Option: ChannelOption>(_ option: Option, value: Option.Value) -> Self { self }

    public func connectTimeout(_ timeout: TimeAmount) -> Self { self }

    public func connect(host: String, port: Int) -> EventLoopFuture<Channel> { fatalError() }
}

@available(OSX 10.14, iOS 12.0, tvOS 12.0, watchOS 6.0, *)
public struct NIOTSChannelOptions: Sendable {
    public static let waitForActivity = NIOTSChannelOptions.Types.NIOTSWaitForActivityOption()

    public static let maximumReceiveLength = NIOTSChannelOptions.Types.NIOTSMaximumReceiveLengthOption()
}

@available(OSX 10.14, iOS 12.0, tvOS 12.0, watchOS 6.0, *)
extension NIOTSChannelOptions {
    public enum Types: Sendable {
        public struct NIOTSWaitForActivityOption: ChannelOption, Equatable {
            public typealias Value = Bool

            public init() {}
        }

        public struct NIOTSMaximumReceiveLengthOption: ChannelOption, Equatable {
            public typealias Value = Int

            public init() {}
        }
    }
}
