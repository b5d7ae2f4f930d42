import FirebaseAnalytics
import Waybill

struct Account {
    let id: String
    let tier: String
}

struct Membership {
    let waybill: WaybillClient

    func signedIn(_ account: Account) {
        waybill.setUser(account.id, traits: ["tier": .string(account.tier)])
    }

    func signedOut() {
        waybill.setUser(nil, traits: ["tier": "none"])
    }

    func answered(analytics: Bool, ads: Bool) {
        Analytics.setConsent([
            .analyticsStorage: analytics ? .granted : .denied,
            .adUserData: ads ? .granted : .denied,
            .adPersonalization: ads ? .granted : .denied,
        ])
    }
}
