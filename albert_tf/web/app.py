"""The ASGI application: routes, middleware, startup and shutdown."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

import fastapi
from fastapi import responses

from albert_tf.inference import saved_model_dir
from albert_tf.web import (
    api_page,
    errors,
    metrics,
    middleware,
    model,
    page,
    schemas,
    service,
    sizes,
)
from albert_tf.web import settings as settings_lib

_PATHS = ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/model")
# Nobody reads it, but the metrics count it. The number is nginx's.
_CLIENT_LEFT = 499
_NAMELESS = saved_model_dir.Description("ALBERT")
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in (
        (400, "The body cannot be decoded, or its JSON is nested too deeply."),
        (403, "The request is for another host, or comes from a page of one."),
        (408, "The headers or the body did not arrive in time."),
        (413, "The body has too many bytes."),
        (422, "The body is not JSON, or does not fit the schema."),
        (429, "Too many requests from this address; Retry-After says when."),
        (503, "Too much waits, it took too long, or the model is being loaded."),
    )
}


def create(
    load: Callable[[], Mapping[str, model.Function]],
    settings: settings_lib.ServerSettings,
    on_loaded: Callable[[BaseException | None], None],
    lengths: sizes.Lengths = sizes.DEFAULT_LENGTHS,
    allowed_hosts: Collection[str] = middleware.LOOPBACK_HOSTS,
    description: saved_model_dir.Description = _NAMELESS,
) -> fastapi.FastAPI:
    """The server as an ASGI application, which loads its model when it starts.

    Args:
      load: returns the model's functions by signature; called in a thread.
      settings: limits and batching.
      on_loaded: called once, with None or the error that loading raised.
      lengths: of the model.
      allowed_hosts: names and addresses that clients may use for the server.
      description: of the model.
    """
    counted = metrics.Metrics()
    served = service.Service(settings, counted)

    async def load_model(app: fastapi.FastAPI) -> None:
        outcomes = await asyncio.gather(asyncio.to_thread(load), return_exceptions=True)
        found = outcomes[0]
        if isinstance(found, BaseException):
            on_loaded(found)
            return
        served.open(found, lengths)
        _add_endpoints(app, served)
        on_loaded(None)

    @contextlib.asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(load_model(app))
        yield
        await loading
        await asyncio.to_thread(served.close)

    app = fastapi.FastAPI(
        title="albert_tf",
        summary="An ALBERT model: text in, answers out.",
        version="1",
        lifespan=lifespan,
        # The framework's own pages load scripts from other servers.
        docs_url=None,
        redoc_url=None,
    )
    errors.handle(app, settings, served)
    _add_pages(app)
    _add_state(app, served, counted, description)
    # The last one added handles a request first.
    app.add_middleware(middleware.SizeLimit, max_body_bytes=settings.max_body_bytes)
    app.add_middleware(
        middleware.RateLimit, requests_per_second=settings.requests_per_second
    )
    app.add_middleware(middleware.HostCheck, allowed_hosts=allowed_hosts)
    paths = {*_PATHS, *(endpoint.path for endpoint in schemas.ENDPOINTS)}
    app.add_middleware(middleware.RequestMetrics, counted=counted, paths=paths)
    return app


def _add_endpoints(app: fastapi.FastAPI, served: service.Service) -> None:
    for endpoint in served.endpoints:
        app.add_api_route(
            endpoint.path,
            _route(endpoint, served),
            methods=["POST"],
            name=endpoint.name,
            summary=endpoint.summary,
            response_model=endpoint.response,
            response_model_exclude_unset=True,
            responses=_ERRORS,
        )
    app.openapi_schema = None  # generated again, with them


def _route(endpoint: schemas.Endpoint, served: service.Service) -> Callable:
    async def ask(body, request: fastapi.Request):
        client = request.client.host if request.client else ""
        answers = served.ask(endpoint.name, body.items(), client)
        asked = asyncio.ensure_future(answers)
        left = asyncio.ensure_future(_disconnection(request))
        try:
            await asyncio.wait((asked, left), return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                return responses.Response(status_code=_CLIENT_LEFT)
            return {"answers": asked.result()}
        finally:
            asked.cancel()  # so that nothing is computed that nobody waits for
            left.cancel()

    # The framework reads the type of the body here.
    ask.__annotations__["body"] = endpoint.request
    return ask


async def _disconnection(request: fastapi.Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_pages(app: fastapi.FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def show_page() -> responses.Response:
        return responses.HTMLResponse(page.HTML, headers=page.HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def show_api() -> responses.Response:
        html = api_page.render(app.openapi())
        return responses.HTMLResponse(html, headers=api_page.HEADERS)


def _add_state(
    app: fastapi.FastAPI,
    served: service.Service,
    counted: metrics.Metrics,
    description: saved_model_dir.Description,
) -> None:
    described = schemas.ModelDescription(**dataclasses.asdict(description))

    @app.get("/healthz", summary="Health of the server.")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(
        "/readyz",
        summary="Readiness of the model.",
        responses={
            503: {"description": "It is not loaded, or the server is stopping."}
        },
    )
    async def readyz(response: fastapi.Response) -> dict[str, str]:
        response.status_code = 200 if served.is_ready else 503
        return {"status": "ready" if served.is_ready else "not ready"}

    @app.get("/metrics", summary="Metrics for Prometheus.")
    async def show_metrics() -> responses.PlainTextResponse:
        return responses.PlainTextResponse(counted.text(), media_type=_METRICS_TYPE)

    @app.get("/v1/model", summary="The model and its endpoints.")
    async def describe() -> schemas.ModelResponse:
        return schemas.ModelResponse(
            model=described,
            status="ready" if served.is_ready else "not ready",
            endpoints=[endpoint.name for endpoint in served.endpoints],
        )
