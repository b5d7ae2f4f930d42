#if canImport(SwiftUI)
    internal import Foundation  // `CGFloat` can be a literal there.
    public import SwiftUI

    /// A live list of stored events that the user can search, pause and clear.
    ///
    ///     let live = LiveFeed()
    ///     waybill.observe(.all(live))
    ///     …
    ///     HomeView().waybillOverlay(live)
    ///
    /// For debug builds.
    public struct WaybillOverlay: View {
        private let feed: LiveFeed
        @State private var shown = LiveFeed.Snapshot()
        @State private var filter: String

        /// Creates a list of a feed's events.
        public init(_ feed: LiveFeed) {
            self.feed = feed
            // When the list is shown again, the feed already has a filter.
            self._filter = State(wrappedValue: feed.filter)
        }

        /// The controls, and the events below them.
        public var body: some View {
            VStack(alignment: .leading) {
                HStack {
                    TextField("Filter", text: self.$filter)
                    self.motionButton
                    Button("Clear") { self.feed.clear() }
                }
                List(self.shown.events) { event in
                    LiveEventRow(event)
                }
            }
            .task {
                for await _ in self.feed.arrivals() { self.shown = self.feed.snapshot }
            }
            .onNewValue(of: self.filter) { self.feed.setFilter(self.filter) }
        }

        @ViewBuilder private var motionButton: some View {
            switch self.shown.motion {
            case .running:
                Button("Pause") { self.feed.pause() }
            case .paused(let hiddenCount):
                Button("Resume (\(hiddenCount))") { self.feed.resume() }
            }
        }
    }

    private struct LiveEventRow: View {
        private let event: LiveEvent

        init(_ event: LiveEvent) {
            self.event = event
        }

        var body: some View {
            VStack(alignment: .leading) {
                Text(verbatim: "\(self.event.time) \(self.event.label)").font(.caption)
                Text(verbatim: self.event.lines.joined(separator: "\n")).font(.caption2)
            }
        }
    }

    extension View {
        /// Overlays the latest events on the lower part of this view.
        public func waybillOverlay(_ feed: LiveFeed) -> some View {
            self.overlay(alignment: .bottom) {
                WaybillOverlay(feed).frame(maxHeight: 320)
            }
        }
    }
#endif
