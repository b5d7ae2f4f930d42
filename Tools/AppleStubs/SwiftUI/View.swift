public import Foundation

@MainActor @preconcurrency
public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

extension Never: View {
    public typealias Body = Never
    public var body: Never { fatalError() }
}

/// A view that SwiftUI draws itself.
public protocol _PrimitiveView: View where Body == Never {}

extension _PrimitiveView {
    public var body: Never { fatalError() }
}

@resultBuilder
public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { fatalError() }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        fatalError()
    }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { fatalError() }
    /// Of a branch with `#available`, whose type older systems must not know.
    public static func buildLimitedAvailability<Content: View>(_ content: Content) -> AnyView { fatalError() }
    public static func buildEither<First: View, Second: View>(first: First) -> _ConditionalContent<First, Second> {
        fatalError()
    }
    public static func buildEither<First: View, Second: View>(second: Second) -> _ConditionalContent<First, Second> {
        fatalError()
    }
}

public nonisolated struct TupleView<T>: _PrimitiveView {}
public nonisolated struct _ConditionalContent<First, Second>: _PrimitiveView {}
public nonisolated struct AnyView: _PrimitiveView {}
public nonisolated struct EmptyView: _PrimitiveView {
    public nonisolated init() {}
}

@MainActor @preconcurrency
public protocol ViewModifier {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency func body(content: Self.Content) -> Self.Body
    typealias Content = _ViewModifier_Content<Self>
}

public nonisolated struct _ViewModifier_Content<Modifier>: _PrimitiveView {}

public nonisolated struct ModifiedContent<Content, Modifier> {}

extension ModifiedContent: View where Content: View, Modifier: ViewModifier {
    public typealias Body = Never
    public var body: Never { fatalError() }
}

extension View {
    public nonisolated func modifier<T>(_ modifier: T) -> ModifiedContent<Self, T> { fatalError() }

    public nonisolated func onAppear(perform action: (() -> Void)? = nil) -> some View { EmptyView() }

    public nonisolated func onDisappear(perform action: (() -> Void)? = nil) -> some View { EmptyView() }

    @available(macOS, introduced: 11, deprecated: 14)
    @available(iOS, introduced: 14, deprecated: 17)
    @available(tvOS, introduced: 14, deprecated: 17)
    @available(watchOS, introduced: 7, deprecated: 10)
    @available(visionOS, introduced: 1, deprecated: 1)
    public nonisolated func onChange<V>(
        of value: V, perform action: @escaping (V) -> Void
    ) -> some View where V: Equatable { EmptyView() }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, visionOS 1, *)
    public nonisolated func onChange<V>(
        of value: V, initial: Bool = false, _ action: @escaping () -> Void
    ) -> some View where V: Equatable { EmptyView() }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, visionOS 1, *)
    public nonisolated func onChange<V>(
        of value: V, initial: Bool = false, _ action: @escaping (V, V) -> Void
    ) -> some View where V: Equatable { EmptyView() }

    // Inlined into apps, back to the first SDK with concurrency.
    // The documentation leaves underscored attributes out; the actor has been inherited since the first SDK with it.
    @available(iOS 15, macOS 12, tvOS 15, watchOS 8, visionOS 1, *)
    public nonisolated func task(
        name: String? = nil, priority: TaskPriority = .userInitiated, file: String = #fileID, line: Int = #line,
        @_inheritActorContext _ action: sending @escaping @isolated(any) () async -> Void
    ) -> some View { EmptyView() }

    public nonisolated func environment<V>(
        _ keyPath: WritableKeyPath<EnvironmentValues, V>, _ value: V
    ) -> some View { EmptyView() }

    public nonisolated func simultaneousGesture<T>(
        _ gesture: T, including mask: GestureMask = .all
    ) -> some View where T: Gesture { EmptyView() }

    @available(iOS 15, macOS 12, tvOS 15, watchOS 8, visionOS 1, *)
    public nonisolated func overlay<V>(
        alignment: Alignment = .center, @ViewBuilder content: () -> V
    ) -> some View where V: View { EmptyView() }

    public nonisolated func frame(
        minWidth: CGFloat? = nil, idealWidth: CGFloat? = nil, maxWidth: CGFloat? = nil, minHeight: CGFloat? = nil,
        idealHeight: CGFloat? = nil, maxHeight: CGFloat? = nil, alignment: Alignment = .center
    ) -> some View { EmptyView() }

    public nonisolated func font(_ font: Font?) -> some View { EmptyView() }
}

public struct Alignment: Equatable, Sendable {
    public static let center = Alignment()
    public static let bottom = Alignment()
}

public struct HorizontalAlignment: Equatable, Sendable {
    public static let leading = HorizontalAlignment()
    public static let center = HorizontalAlignment()
}

public struct VerticalAlignment: Equatable, Sendable {
    public static let center = VerticalAlignment()
}

public struct Font: Hashable, Sendable {
    public static let caption = Font()
    public static let caption2 = Font()
}
