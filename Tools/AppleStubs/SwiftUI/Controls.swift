public import Foundation

public struct LocalizedStringKey: Equatable, ExpressibleByStringInterpolation {
    public init(stringLiteral value: String) {}
}

public nonisolated struct Text: Equatable, _PrimitiveView {
    public nonisolated init(verbatim content: String) {}
    public nonisolated func font(_ font: Font?) -> Text { fatalError() }
    public nonisolated static func == (left: Text, right: Text) -> Bool { fatalError() }
}

public nonisolated struct Button<Label: View>: _PrimitiveView {}

extension Button where Label == Text {
    @preconcurrency
    public nonisolated init(_ titleKey: LocalizedStringKey, action: @escaping @MainActor () -> Void) { fatalError() }

    @preconcurrency @_disfavoredOverload
    public nonisolated init<S>(_ title: S, action: @escaping @MainActor () -> Void) where S: StringProtocol {
        fatalError()
    }
}

public nonisolated struct TextField<Label: View>: _PrimitiveView {}

extension TextField where Label == Text {
    public nonisolated init(_ titleKey: LocalizedStringKey, text: Binding<String>) { fatalError() }

    @_disfavoredOverload
    public nonisolated init<S>(_ title: S, text: Binding<String>) where S: StringProtocol { fatalError() }
}

public nonisolated struct VStack<Content: View>: _PrimitiveView {
    public nonisolated init(
        alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content
    ) {}
}

public nonisolated struct HStack<Content: View>: _PrimitiveView {
    public nonisolated init(
        alignment: VerticalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content
    ) {}
}

public nonisolated struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content> {}

public nonisolated struct List<SelectionValue: Hashable, Content: View>: _PrimitiveView {}

extension List where SelectionValue == Never {
    public nonisolated init<Data, RowContent>(
        _ data: Data, @ViewBuilder rowContent: @escaping (Data.Element) -> RowContent
    )
    where
        Content == ForEach<Data, Data.Element.ID, RowContent>, Data: RandomAccessCollection, RowContent: View,
        Data.Element: Identifiable
    { fatalError() }
}

extension ForEach: View where Content: View {
    public typealias Body = Never
    public var body: Never { fatalError() }
}
