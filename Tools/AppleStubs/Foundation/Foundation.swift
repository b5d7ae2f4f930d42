// What WaybillUI and the stand-ins use of Foundation; the toolchain's own is built for its own platform alone.

@frozen public struct CGFloat: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, Sendable {
    public init(integerLiteral value: Int) {}
    public init(floatLiteral value: Double) {}
}

@frozen public struct CGRect: Sendable {}

public protocol NSObjectProtocol: AnyObject {}

open class NSObject: NSObjectProtocol, Hashable {
    public init() {}
    public static func == (left: NSObject, right: NSObject) -> Bool { fatalError() }
    public func hash(into hasher: inout Hasher) {}
}

open class NSNotification: NSObject {
    public struct Name: Hashable, Sendable {}
}

public struct Notification {
    public typealias Name = NSNotification.Name
}

open class OperationQueue: NSObject {}

open class NotificationCenter: NSObject, @unchecked Sendable {
    open class var `default`: NotificationCenter { fatalError() }
    open func addObserver(
        forName name: NSNotification.Name?, object: Any?, queue: OperationQueue?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol { fatalError() }
    open func removeObserver(_ observer: Any) {}
}
