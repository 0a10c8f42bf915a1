from __future__ import annotations

from parachuted.vault import Author, Requester


def test_authors_that_differ_in_their_caller_alone_are_the_same():
    phone = Author(by="person", requester=Requester("api_key", "phone", "request-1"))

    assert phone == Author(by="person")
    assert phone != Author(by="person", run="r-1", requester=phone.requester)
