"""Who may ask: only who has the token, from this computer, by this computer's name."""

import hmac

import tornado.web

POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:",
        "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guarded(tornado.web.RequestHandler):
    """A request, refused without the token or with a foreign Host or Origin.

    The token comes in the address that the command prints, and then in a cookie that other sites
    can neither read nor send.
    """

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        request, settings = self.request, self.settings
        if request.host not in settings["hosts"]:
            raise tornado.web.HTTPError(403, reason="Host not allowed")
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.host}":
            raise tornado.web.HTTPError(403, reason="Origin not allowed")
        given, kept = self.get_query_argument("token", None), self.get_cookie(settings["cookie"])
        if self._is_token(given):
            self.set_cookie(settings["cookie"], settings["token"], httponly=True, samesite="Strict")
        elif not self._is_token(kept):
            raise tornado.web.HTTPError(403, reason="Open the address that the command printed")

    def _is_token(self, text: str | None) -> bool:
        token = self.settings["token"]
        return text is not None and hmac.compare_digest(text.encode(), token.encode())

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """One line instead of a page of HTML."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"learndyn: {self._reason}\n")
