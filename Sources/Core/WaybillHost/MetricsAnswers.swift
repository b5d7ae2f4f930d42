package import NIOCore

/// What a program answers about itself; each is made for the request, and nothing while no one asks.
package struct MetricsAnswers: Sendable {
    /// `GET /metrics`: names no one.
    package var page: @Sendable (_ eventLoop: any EventLoop) -> EventLoopFuture<MetricsPage>
    /// `GET /livez`: succeeds if the program's threads still work.
    package var liveness: @Sendable (_ eventLoop: any EventLoop) -> EventLoopFuture<Void>
    /// `GET /readyz`: names no one.
    package var readiness: @Sendable (_ eventLoop: any EventLoop) -> EventLoopFuture<Readiness>
    /// `GET /status`: JSON, now or once something comes after the position that the request names; `nil` if too many
    /// requests wait.
    package var status: @Sendable (_ after: Int?, _ channel: any Channel) -> EventLoopFuture<[UInt8]>?

    package init(
        page: @escaping @Sendable (any EventLoop) -> EventLoopFuture<MetricsPage>,
        liveness: @escaping @Sendable (any EventLoop) -> EventLoopFuture<Void>,
        readiness: @escaping @Sendable (any EventLoop) -> EventLoopFuture<Readiness>,
        status: @escaping @Sendable (Int?, any Channel) -> EventLoopFuture<[UInt8]>?
    ) {
        self.page = page
        self.liveness = liveness
        self.readiness = readiness
        self.status = status
    }
}
