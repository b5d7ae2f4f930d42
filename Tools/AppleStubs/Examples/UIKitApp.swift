import UIKit
import WaybillUI

final class SearchController: UIViewController {
    private var tracker: ScreenTracker?

    override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        guard let tracker = self.tracker else { return }
        self.screenAppeared("Search", id: "s-1", in: tracker)
        self.screenAppeared(ScreenViewed(ScreenRef("Search")), in: tracker)
    }

    override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        if let tracker = self.tracker { self.screenDisappeared(in: tracker) }
    }
}

@MainActor
func showAlerts(of waybill: WaybillClient, over root: UIViewController) {
    waybill.observe(.only(AlertObserver(), ScreenViewed.self))
    waybill.observe(.all(AlertObserver(root: { [weak root] in root })))
}

@MainActor
func followFlow(of tracker: ScreenTracker, owner: UIViewController) {
    tracker.screenAppeared(ScreenViewed(ScreenRef("Product", id: "1")), on: owner)
    tracker.screenChanged(to: ScreenViewed(ScreenRef("Product", id: "2")), on: owner)
    tracker.screenDisappeared(on: owner)
    tracker.appEnteredBackground()
    tracker.appEnteredForeground()
}
