#if canImport(SwiftUI)
    internal import SwiftUI

    extension View {
        /// Runs `action` after a value has changed, as SwiftUI's `onChange(of:initial:_:)` does from iOS 17 on.
        ///
        /// - Parameter initial: whether the view's first appearance counts as a change.
        @ViewBuilder
        func onNewValue(of value: some Equatable, initial: Bool = false, _ action: @escaping () -> Void) -> some View {
            #if os(visionOS)
                self.onChange(of: value, initial: initial) { action() }
            #else
                if #available(iOS 17, macOS 14, tvOS 17, watchOS 10, *) {
                    self.onChange(of: value, initial: initial) { action() }
                } else {
                    self.modifier(ChangeModifier(value, initial: initial, action))
                }
            #endif
        }
    }

    #if !os(visionOS)
        /// The same for earlier systems, which run the closure of the redraw before the change.
        private struct ChangeModifier<Value: Equatable>: ViewModifier {
            /// The closure of the last redraw; SwiftUI keeps one for each place in the view tree.
            private final class Latest {
                var action: () -> Void = {}
                var hasAppeared = false
            }

            private let value: Value
            private let initial: Bool
            private let action: () -> Void
            @State private var latest = Latest()

            init(_ value: Value, initial: Bool, _ action: @escaping () -> Void) {
                self.value = value
                self.initial = initial
                self.action = action
            }

            func body(content: Content) -> some View {
                self.latest.action = self.action
                return
                    content
                    .onAppear { self.appeared() }
                    .onChange(of: self.value, perform: { _ in self.latest.action() })
            }

            private func appeared() {
                guard self.initial, !self.latest.hasAppeared else { return }
                self.latest.hasAppeared = true
                self.latest.action()
            }
        }
    #endif
#endif
