import Testing
import WaybillHost

struct ConnectionTableTests {
    private typealias Table = ConnectionTable<Int>

    @Test func `for one silent connection too many of a group, its oldest ends`() {
        let limits = ConnectionLimits(countMax: 100, groupCountMax: 2)
        var table = Table()
        #expect(table.arrived(1, of: "a", limits) == .admitted)
        #expect(table.arrived(2, of: "b", limits) == .admitted)
        #expect(table.arrived(3, of: "a", limits) == .admitted)
        #expect(table.arrived(4, of: "a", limits) == .admittedInsteadOf(1, .group))
        table.identified(3)
        #expect(table.arrived(5, of: "a", limits) == .admitted)
        #expect(table.arrived(6, of: "a", limits) == .admittedInsteadOf(4, .group))
        #expect(table.count == 4)
    }

    @Test func `silent connections of many groups are bounded together`() {
        let limits = ConnectionLimits(countMax: 8, silentCountMax: 2, groupCountMax: 10)
        var table = Table()
        #expect(table.arrived(1, of: "a", limits) == .admitted)
        #expect(table.arrived(2, of: "b", limits) == .admitted)
        #expect(table.arrived(3, of: "c", limits) == .admittedInsteadOf(1, .silent))
    }

    @Test func `when all places are taken, agents that never delivered end first, and known ones stay`() {
        let limits = ConnectionLimits(countMax: 4, silentCountMax: 1, groupCountMax: 10)
        var table = Table()
        for key in 1...4 {
            #expect(table.arrived(key, of: "a", limits) == .admitted)
            table.identified(key)
        }
        table.known(1)
        #expect(table.arrived(5, of: "a", limits) == .admittedInsteadOf(2, .all))
        // One that is silent has delivered nothing.
        table.known(5)
        for key in [3, 4, 5] {
            table.identified(key)
            table.known(key)
        }
        #expect(table.arrived(6, of: "b", limits) == .refused)
        // One that has delivered is not asked again who it is.
        table.identified(4)
        #expect(table.arrived(6, of: "b", limits) == .refused)
        table.left(1)
        #expect(table.arrived(7, of: "b", limits) == .admitted)
    }

    @Test func `the one that was answered longest ago ends, and those that wait for an answer stay`() {
        let limits = ConnectionLimits(countMax: 3)
        var table = Table()
        for key in 1...3 { #expect(table.arrived(key, of: nil, limits) == .admitted) }
        table.asked(1)
        table.rested(1)
        table.asked(2)
        #expect(table.arrived(4, of: nil, limits) == .admittedInsteadOf(3, .all))
        #expect(table.arrived(5, of: nil, limits) == .admittedInsteadOf(1, .all))
        for key in [4, 5] { table.asked(key) }
        #expect(table.arrived(6, of: nil, limits) == .refused)
        table.rested(5)
        table.rested(2)
        #expect(table.arrived(6, of: nil, limits) == .admittedInsteadOf(5, .all))
        // What has ended changes nothing.
        for key in [1, 3, 5] {
            table.rested(key)
            table.left(key)
        }
        #expect(table.count == 3)
    }

    @Test func `a group that has its share ends its own, and none of another one`() {
        let limits = ConnectionLimits(countMax: 100, groupCountMax: 2)
        var table = Table()
        for (key, group) in [(1, "b"), (2, "a"), (3, "a")] {
            #expect(table.arrived(key, of: group, limits) == .admitted)
        }
        table.asked(2)
        #expect(table.arrived(4, of: "a", limits) == .admittedInsteadOf(3, .group))
        table.asked(4)
        #expect(table.arrived(5, of: "a", limits) == .refused)
        #expect(table.arrived(5, of: nil, limits) == .admitted)
        table.left(2)
        #expect(table.arrived(6, of: "a", limits) == .admitted)
        #expect(table.count == 4)
    }

    @Test func `if no file is left, the one that has been silent longest ends`() {
        let limits = ConnectionLimits(countMax: 10)
        var table = Table()
        for key in 1...3 { #expect(table.arrived(key, of: "a", limits) == .admitted) }
        table.asked(1)
        #expect(table.endSilent() == 2)
        #expect(table.endSilent() == 3)
        #expect(table.endSilent() == nil)
        #expect(table.count == 1)
    }

    @Test func `a key that comes again stands at the end`() {
        let limits = ConnectionLimits(countMax: 2)
        var table = Table()
        for key in 1...2 { #expect(table.arrived(key, of: nil, limits) == .admitted) }
        table.left(1)
        #expect(table.arrived(1, of: nil, limits) == .admitted)
        #expect(table.arrived(3, of: nil, limits) == .admittedInsteadOf(2, .all))
    }

    @Test func `a flood of silent connections leaves nothing`() {
        let limits = ConnectionLimits(countMax: 1000, silentCountMax: 250, groupCountMax: 16)
        var table = Table()
        for key in 0..<100_000 { #expect(table.arrived(key, of: "\(key % 4)", limits) != .refused) }
        #expect(table.count == 64)
        for key in 0..<100_000 { table.left(key) }
        #expect(table.count == 0)
        #expect(table.arrived(1, of: "0", limits) == .admitted)
    }

    /// The first that was silent at the time, found by a search.
    @Test func `it is the one that a search finds, whatever came before`() {
        let limits = ConnectionLimits(countMax: 8, groupCountMax: 3)
        var table = Table()
        var silent: [(key: Int, group: String)] = []
        var busy: [(key: Int, group: String)] = []
        var state: UInt64 = 1
        for key in 0..<20_000 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let choice = Int(state >> 33)
            switch choice % 4 {
            case 0 where !silent.isEmpty:
                busy.append(silent.remove(at: choice / 4 % silent.count))
                table.asked(busy[busy.count - 1].key)
            case 1 where !busy.isEmpty:
                silent.append(busy.remove(at: choice / 4 % busy.count))
                table.rested(silent[silent.count - 1].key)
            case 2 where !busy.isEmpty: table.left(busy.remove(at: choice / 4 % busy.count).key)
            default:
                let group = "\(choice / 4 % 5)"
                let isShared = (silent + busy).count { $0.group == group } >= 3
                let isFull = silent.count + busy.count >= 8
                let victim = silent.firstIndex { !isShared || $0.group == group }
                let arrival = table.arrived(key, of: group, limits)
                if !isShared && !isFull {
                    #expect(arrival == .admitted)
                } else if let victim {
                    #expect(arrival == .admittedInsteadOf(silent.remove(at: victim).key, isShared ? .group : .all))
                } else {
                    #expect(arrival == .refused)
                }
                if arrival != .refused { silent.append((key, group)) }
            }
            #expect(table.count == silent.count + busy.count)
        }
    }
}
